"""Points at which features meet that do not know each other. No IO."""
