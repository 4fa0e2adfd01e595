"""Vendors, one file each, found by its name. No IO: the node runs what they ask for."""
