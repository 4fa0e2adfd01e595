"""Answers of the metrics APIs, computed from reports and the cluster's objects. No IO."""
