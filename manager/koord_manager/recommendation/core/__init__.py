"""Requests and limits for workloads, from histograms of what their pods use. No IO."""
