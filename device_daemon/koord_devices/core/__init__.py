"""What is known of accelerators, and how it is written. No IO."""
