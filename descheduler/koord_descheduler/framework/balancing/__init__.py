"""Balancing of nodes: pods go from nodes above thresholds to nodes below others. No IO."""
