"""The table of all webhooks, and what they share. No IO."""
