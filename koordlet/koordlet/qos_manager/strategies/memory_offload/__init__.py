"""Memory offloading: how much memory of a pod is reclaimed because nobody misses it."""
