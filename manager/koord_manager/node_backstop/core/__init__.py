"""Unhealthy nodes, and what may be done about them. No IO."""
