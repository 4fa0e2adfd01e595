"""What looks at the node: one file a collector, found by its name; see ``collecting``.

Each turns the text of kernel files into samples and does no IO of its own.
"""
