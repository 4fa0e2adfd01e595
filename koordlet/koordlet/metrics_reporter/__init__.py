"""Reports the node to the cluster: through the API server, or directly to the manager.

``koordlet.metrics_reporter.documents`` builds what is reported.
"""
