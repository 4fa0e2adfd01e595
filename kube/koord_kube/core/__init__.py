"""The rules of informers, work queues, elections and Events, as values. No IO."""
