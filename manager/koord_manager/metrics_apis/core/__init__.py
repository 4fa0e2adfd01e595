"""What the metrics APIs answer, computed from reports and the cluster's objects. No IO."""
