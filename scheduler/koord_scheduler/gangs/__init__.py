"""Gangs: pods that start together or not at all. No IO."""
