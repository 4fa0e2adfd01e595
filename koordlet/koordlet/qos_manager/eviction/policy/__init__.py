"""Pods that may be evicted, their order, and the rate of evictions. No IO."""
