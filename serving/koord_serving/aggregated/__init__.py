"""Parts of an API server of Kubernetes' aggregation layer."""
