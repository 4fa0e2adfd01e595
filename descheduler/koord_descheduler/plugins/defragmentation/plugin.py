"""The plugin Defragmentation asks for the moves that the search finds. No IO."""
