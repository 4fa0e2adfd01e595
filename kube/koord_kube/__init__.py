"""The Kubernetes API: ``resources`` names the kinds, ``api`` defines the requests."""
