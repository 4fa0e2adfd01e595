"""The table of knobs, the forms of their files, and where the files are. No IO."""
