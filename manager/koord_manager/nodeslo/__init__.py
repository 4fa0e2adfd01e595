"""NodeSLO: the strategies that hold for each node."""
