"""What is said to an API server, and what its answers mean. No IO."""
