"""Which pods run on this node, and what the cluster says about it."""
