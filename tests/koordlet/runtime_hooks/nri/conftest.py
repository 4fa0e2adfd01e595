"""A runtime that speaks NRI, a handler that remembers, and a client between them."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_service.backoff import Backoff
from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler

from tests.support.nri_runtime import NriRuntime


class Remembering(NriHandler):
    """Remembers what it got; ``wanted`` are answers by method, or what gives them."""

    def __init__(self, **wanted: Any) -> None:
        self.reported: list[tuple[str, Any]] = []
        self._wanted = wanted

    def connected(self, runtime):
        self._remember("connected", runtime)

    def disconnected(self, reason):
        self._remember("disconnected", reason)

    def synchronize(self, request):
        return self._remember("synchronize", request)

    def run_pod_sandbox(self, request):
        return self._remember("run_pod_sandbox", request)

    def create_container(self, request):
        return self._remember("create_container", request)

    def names(self) -> list[str]:
        return [name for name, _ in self.reported]

    def _remember(self, name: str, request: Any) -> Any:
        self.reported.append((name, request))
        wanted = self._wanted.get(name)
        return wanted(request) if callable(wanted) else wanted


def client_of(socket: Path, handler: NriHandler, **settings: Any) -> NriClient:
    """A client that does not wait long before it tries again."""
    settings.setdefault("backoff", Backoff(0.01, 0.05))
    return NriClient(handler, socket=str(socket), poll=0.01, **settings)


@contextlib.asynccontextmanager
async def running(client: NriClient) -> AsyncIterator[NriClient]:
    """The client as it runs in koordlet."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(client.run())
        try:
            yield client
        finally:
            task.cancel()


@pytest.fixture
def socket() -> Iterator[Path]:
    """A short path: it is a socket's."""
    with tempfile.TemporaryDirectory(prefix="pykoord-nri-") as name:
        yield Path(name) / "nri.sock"


@pytest.fixture
async def runtime(socket: Path) -> AsyncIterator[NriRuntime]:
    instance = NriRuntime(socket)
    # As no other: what a test does not mean to be late shall not be, on a slow machine.
    instance.request_timeout = 10.0
    async with instance:
        yield instance
