"""State of accelerators, and its documents. No IO."""
