"""A run: the node and the strategies in turn, what was recorded, and a report of it. No IO."""
