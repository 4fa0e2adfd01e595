"""Interrupts of network cards: which CPUs serve them."""
