"""Evicts pods: who may be evicted, who goes first, by which backend, which Events are written."""
