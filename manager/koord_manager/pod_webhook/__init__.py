"""The webhooks of pods: ``mutating`` and ``validating``, and a file for each part. No IO."""
