"""Parsers of the kernel's files, one for each file or directory. No IO."""
