"""ClusterColocationProfiles: read, matched against pods, applied. No IO."""
