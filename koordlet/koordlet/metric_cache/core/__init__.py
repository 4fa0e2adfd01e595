"""Rings, tiers, aggregation and the log's records of the metric cache. No IO."""
