"""What plugins are, and how their answers become a decision. No IO."""
