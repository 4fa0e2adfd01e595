"""Protects memory of pods, and throttles what goes beyond its requests."""
