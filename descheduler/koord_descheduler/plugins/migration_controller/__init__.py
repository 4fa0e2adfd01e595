"""MigrationController: who may move by PodMigrationJobs, and how many at a time. No IO."""
