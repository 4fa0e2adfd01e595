"""Decisions about profiles, their pods and their baselines. No IO."""
