"""Disk limits and weights by QoS class."""
