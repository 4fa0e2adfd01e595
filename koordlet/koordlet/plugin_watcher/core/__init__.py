"""Decisions of the plugin watcher. No IO."""
