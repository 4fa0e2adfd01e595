"""The contract of collectors, and what they share. No IO."""
