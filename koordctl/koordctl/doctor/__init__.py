"""``koordctl doctor``: what is wrong with a node or a cluster, and the way out of it."""
