"""The desired state of NodeMetrics, and how they are stored, listed and watched. No IO."""
