"""The cluster's Nodes, and which objects of a kind they need. No IO."""
