"""The command line for people: the status of a node's programs and of the cluster's manager.

``README.md`` beside this package says what each module does.
"""
