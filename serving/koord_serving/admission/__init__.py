"""Admission webhooks: the server, its handler, and the configurations that point to it."""
