"""Bounds of what is under way, and of what is cached. No IO."""
