"""What NodeMetrics should say, and how they are stored, listed and watched. No IO."""
