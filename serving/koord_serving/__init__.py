"""HTTPS services of a control-plane program: admission webhooks, aggregated APIs."""
