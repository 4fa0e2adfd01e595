"""What is said to Nodes and their statuses before they are kept. No IO."""
