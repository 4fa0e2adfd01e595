"""NodeMetric, NodeResourceTopology and Device, built from what koordlet knows. No IO."""
