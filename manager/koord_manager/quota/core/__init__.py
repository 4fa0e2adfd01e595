"""What is decided about quotas. No IO."""
