"""Amounts a node offers beside its allocatable: batch, mid and devices; ratios. No IO."""
