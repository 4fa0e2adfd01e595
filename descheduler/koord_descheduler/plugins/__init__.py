"""Plugins, found by name: a file or a folder each, with all that it is. No IO."""
