"""Pods of this node, and the cluster's state about it."""
