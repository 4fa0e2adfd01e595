"""Reclaim of memory that its owners do not miss, for several strategies."""
