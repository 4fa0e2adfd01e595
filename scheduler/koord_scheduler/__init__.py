"""koord-scheduler: places pods on nodes."""
