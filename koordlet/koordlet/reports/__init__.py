"""What koordlet tells the cluster: documents built from what it knows. No IO."""
