"""The frame of plugins, and the way from their answers to a decision. No IO."""
