"""Admission rules of resizes. No IO."""
