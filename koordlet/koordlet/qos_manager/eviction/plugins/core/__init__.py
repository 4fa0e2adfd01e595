"""Requests to eviction plugins, and their answers. No IO."""
