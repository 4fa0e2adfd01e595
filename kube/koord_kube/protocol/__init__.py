"""Requests to an API server, and what its answers mean. No IO."""
