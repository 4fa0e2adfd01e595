"""What every long-running program of pykoord needs around its real work.

Glossary:
    settings   one dataclass a program, filled from flags, environment and YAML.
    logs       one line an event, for people or as JSON.
    systemd    readiness, watchdog, sockets handed over at start.
    status     /metrics, /healthz and JSON pages on a loopback port or unix socket.
    sockets    unix sockets with a mode and an owner; stale ones are replaced.
"""
