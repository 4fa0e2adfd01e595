"""What the cluster's objects should be, from what they are: one file or folder each. No IO."""
