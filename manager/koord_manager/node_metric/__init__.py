"""NodeMetric: created for each node, reported by koordlets, served as an aggregated API."""
