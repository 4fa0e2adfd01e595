"""A relay on a unix socket before a backend that the test plays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from koord_proxy.contract.events import Route, Tally, Treatment
from koord_proxy.server import Relay

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]


def listening(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(path))
    found.listen(128)
    return found


def relay_all() -> Any:
    """An interceptor that takes no interest in anything."""
    tally = Tally()
    return SimpleNamespace(route=lambda _: Route(Treatment.RELAY, tally), handle=lambda *_: None)


@asynccontextmanager
async def relaying(
    directory: Path, session: Any, serve: Serve, interceptor: Any = None
) -> AsyncIterator[Relay]:
    """A relay at ``p.sock`` while the block runs; its backend is ``b.sock``."""
    backend = directory / "b.sock"
    serving = await asyncio.start_unix_server(serve, backend)
    async with serving, asyncio.TaskGroup() as tasks:
        relay = Relay(
            backend_path=str(backend),
            session=session,
            interceptor=interceptor or relay_all(),
            tasks=tasks,
        )
        await relay.listen([listening(directory / "p.sock")])
        yield relay
