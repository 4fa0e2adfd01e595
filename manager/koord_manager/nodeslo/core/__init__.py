"""What each NodeSLO should say. No IO."""
