"""The contract of strategies, one round of them, and what they decided. No IO."""
