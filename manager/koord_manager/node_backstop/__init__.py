"""Unhealthy nodes: a bounded number is tainted, and some of their pods are evicted."""
