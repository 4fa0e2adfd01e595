"""Webhooks over HTTPS: server, certificates, the webhook configurations that point at it."""
