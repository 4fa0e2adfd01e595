"""Bounds of what unknown clients may cost."""
