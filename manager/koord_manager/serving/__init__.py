"""Webhooks over HTTPS: server, certificates, the webhook configurations that point at it.

- review: what an API server asks, and is answered; ``reviews`` reads and writes it.
- bundle: the authorities that API servers are to trust; PEM, in objects a caBundle.
- authority: signs the server's certificate; kept with it in a Secret, see ``certificates``.
- target: an object that holds a bundle.
- round: one look at whether all is as it should be; ``rounds`` has them done again and again.
"""
