"""Pods and Nodes as the scheduler reads them from the API. No IO."""
