"""Users, and the reviews about them. No IO."""
