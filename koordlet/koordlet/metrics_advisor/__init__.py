"""Measures the node: the contract of collectors, their table, and what runs them.

Samples go to ``koordlet.metric_cache``.
"""
