"""What gRPC's C core is told before it starts; it listens to the environment only."""

from __future__ import annotations

import os

_WANTED = {
    # It would put lines of its own between ours.
    "GRPC_VERBOSITY": "ERROR",
    # A hook call is one small message each way. Its newer event engine hands it from
    # thread to thread, which on a busy node with two cores takes a quarter longer
    # (gRPC 1.85, a call every 8 ms: 0.63 ms instead of 0.83). Where a version does not
    # know these names any more, they do nothing.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
}


def prepare() -> None:
    """Set what is not set already; call it before the first channel or server is made."""
    for name, value in _WANTED.items():
        os.environ.setdefault(name, value)
