"""Plans of traffic classes for egress, and the packet filters for them. No IO."""
