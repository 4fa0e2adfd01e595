"""Pods and nodes as the descheduler reads them. No IO."""
