"""Controllers that keep one object of a kind for each Node: NodeMetric and NodeSLO."""
