"""A node under load whose every part is killed, hung and spoilt: what became of each call.

``make chaos MINUTES=5``, or ``python -m tests.chaos --help``.
"""
