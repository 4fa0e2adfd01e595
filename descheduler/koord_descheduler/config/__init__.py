"""DeschedulerConfiguration and its plugins' arguments. No IO."""
