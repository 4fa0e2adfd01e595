"""Profiles of services: what Katalyst calls ServiceProfileDescriptors, for the nodes."""
