"""Pods, share pools and the kubelet's lists as values. No IO."""
