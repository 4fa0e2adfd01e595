"""Batch, mid and device resources: what each node offers beside its allocatable."""
