"""The common frame of every long-running program of pykoord.

``README.md`` beside this package says what each module does.
"""
