"""Upstream's DefaultEvictor: pods that may be evicted, by the Eviction API. No IO."""
