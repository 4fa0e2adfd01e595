"""Delegated authentication and authorization: the API server reviews tokens and access."""
