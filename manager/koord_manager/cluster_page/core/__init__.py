"""The leader's knowledge as the page shows it. No IO."""
