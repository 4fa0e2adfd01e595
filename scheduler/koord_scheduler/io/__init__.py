"""The way to the API and back: caches, binding, reports, writers."""
