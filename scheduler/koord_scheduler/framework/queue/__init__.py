"""Order of pods, and the waiting ones. No IO."""
