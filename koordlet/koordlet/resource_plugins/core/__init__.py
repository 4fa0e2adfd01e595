"""Requests, answers, hints and the file of allocations. No IO."""
