"""Who may be evicted, who goes first, and how many a minute. No IO."""
