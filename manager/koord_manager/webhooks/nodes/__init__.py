"""Webhooks for Nodes and their statuses. No IO."""
