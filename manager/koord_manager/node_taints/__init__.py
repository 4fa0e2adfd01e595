"""Taints of Nodes for conditions that eviction plugins report."""
