"""One collector per file, found by its name; ``metrics_advisor.contract`` says what it must have.

Each turns the text of kernel files into samples and does no IO of its own.
"""
