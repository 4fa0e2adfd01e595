"""NRI and ttrpc as bytes and events. No IO."""
