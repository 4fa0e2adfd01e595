"""Recommendation: requests and limits for workloads."""
