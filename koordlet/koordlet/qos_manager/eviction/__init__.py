"""Evicts pods: which may be evicted, in which order, by which backend, with which Events."""
