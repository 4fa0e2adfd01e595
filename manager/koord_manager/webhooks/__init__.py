"""What is said to objects before they are kept: one file or folder a webhook. No IO."""
