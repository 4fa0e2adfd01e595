"""Which pod comes next, and which wait. No IO."""
