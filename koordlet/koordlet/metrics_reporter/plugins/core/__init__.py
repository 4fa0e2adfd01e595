"""Contents of reporter plugins, and what of them counts. No IO."""
