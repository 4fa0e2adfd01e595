"""Sides of nodes, and the moves between them. No IO."""
