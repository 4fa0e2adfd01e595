"""Evictions: who may be evicted, who goes first, how it is done, what is told of it."""
