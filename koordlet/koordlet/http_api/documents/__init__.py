"""The documents that the HTTP API shows, made of what koordlet knows. No IO."""
