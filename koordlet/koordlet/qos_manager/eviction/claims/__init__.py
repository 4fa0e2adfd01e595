"""Amounts to be freed, and the pods that could free them. No IO."""
