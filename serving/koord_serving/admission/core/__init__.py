"""Admission reviews, webhook configurations, JSON patches. No IO."""
