"""gRPC, loaded from here so that its C core finds its environment set.

It listens to the environment only, and only while it is being loaded.
"""

# ruff: noqa: E402

from __future__ import annotations

import os

_WANTED = {
    # It would put lines of its own between ours.
    "GRPC_VERBOSITY": "ERROR",
    # A hook call is one small message each way. The newer event engine hands it from
    # thread to thread, which takes a quarter longer (gRPC 1.85, an echo between two
    # processes every 8 ms, medians of six turns: 0.56 ms instead of 0.39). Where a
    # version does not know these names any more, they do nothing.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
}

for _name, _value in _WANTED.items():
    os.environ.setdefault(_name, _value)

import grpc
import grpc.aio

__all__ = ["grpc"]
