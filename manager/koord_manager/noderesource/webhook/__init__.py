"""A Node's allocatable, amplified before it is stored. No IO."""
