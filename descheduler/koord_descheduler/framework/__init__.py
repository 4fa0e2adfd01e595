"""Rounds: what plugins ask for is tried on the virtual cluster, and chosen or refused. No IO."""
