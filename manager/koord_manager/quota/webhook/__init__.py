"""The webhooks of ElasticQuotas, and what quotas mean for pods under review. No IO."""
