"""Equivalence classes: pods that are placed alike. No IO."""
