"""TLS for servers: certificates that rotate, where they are stored, and the listener."""
