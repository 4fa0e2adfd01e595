"""Which pods may be evicted, in which order, and how many a minute. No IO."""
