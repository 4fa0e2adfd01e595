"""A client that never pauses, and notes every call that did not get through."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc

from tests.support.cri import method_path, pb
from tests.support.processes import PATIENCE

LIKE_A_KUBELET = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""A connection of its own, and gRPC's usual patience with it: 20 seconds."""


class Caller(threading.Thread):
    """Asks for the runtime's version until it is ``over``."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.over = False
        self.calls = 0
        self.errors: list[str] = []

    def run(self) -> None:
        with grpc.insecure_channel(f"unix:{self._path}", LIKE_A_KUBELET) as channel:
            version = channel.unary_unary(
                method_path("Version"), response_deserializer=pb.VersionResponse.FromString
            )
            while not self.over:
                try:
                    assert version(b"", timeout=PATIENCE).runtime_name
                except grpc.RpcError as error:
                    self.errors.append(f"{error.code()}: {error.details()}")
                self.calls += 1
