"""Decisions about PodMigrationJobs. No IO."""
