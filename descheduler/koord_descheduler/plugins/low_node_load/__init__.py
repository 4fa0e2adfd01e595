"""LowNodeLoad: pods go from nodes that use too much to nodes that use little. No IO."""
