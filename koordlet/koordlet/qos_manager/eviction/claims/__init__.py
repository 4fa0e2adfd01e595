"""How much must be freed, and which pods could free it. No IO."""
