"""What every long-running program of pykoord needs around its real work.

``README.md`` beside this package says what each module does.
"""
