"""Decisions about quotas. No IO."""
