"""Interference detection: containers that are slowed down, and the likely antagonist."""
