"""Objects that koordlet reports, built from what it knows. No IO."""
