"""What a control-plane program serves over HTTPS: admission webhooks, aggregated APIs."""
