"""Profiles for what is created beside pods; pods have a webhook of their own. No IO."""
