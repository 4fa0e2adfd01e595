"""What a node offers beside its allocatable: batch, mid and device resources, ratios. No IO."""
