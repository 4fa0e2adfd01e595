"""Refuses ConfigMaps that cannot be profiles of services. No IO."""
