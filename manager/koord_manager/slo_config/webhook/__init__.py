"""Refuses a ConfigMap that cannot be used, and Nodes whose labels choose two strategies. No IO."""
