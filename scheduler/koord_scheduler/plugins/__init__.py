"""The scheduler's plugins, one file each; they never import each other. No IO."""
