"""Taints of nodes for reported conditions. No IO."""
