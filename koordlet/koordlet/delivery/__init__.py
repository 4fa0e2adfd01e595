"""How reports leave the node: by the API server, or straight to the manager.

What is in them is made in ``koordlet.reports``.
"""
