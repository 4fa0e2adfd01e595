"""Certificates: an authority of our own, and what it signs. No IO."""
