"""Kubernetes' own metrics APIs, served from what nodes report."""
