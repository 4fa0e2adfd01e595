"""The frame of plugin arguments: types of fields, and the wording of problems. No IO."""
