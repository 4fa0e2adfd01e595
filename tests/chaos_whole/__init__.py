"""A whole real cluster of one node whose every program is killed: when all is right again.

``make chaos-whole MINUTES=5``, or ``python -m tests.chaos_whole --help``.
"""
