"""The contract of collectors, the table of metrics, and what collectors share. No IO."""
