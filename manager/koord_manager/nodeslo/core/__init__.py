"""The desired state of each NodeSLO. No IO."""
