"""Looking at the node: the contract of collectors, finding them, asking them in turn.

The collectors themselves are in ``koordlet.collectors``; what they find goes to
``koordlet.cache``.
"""
