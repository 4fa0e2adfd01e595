"""A relay before a server: clients come from another address then, or go to another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def relaying(
    target: Callable[[], tuple[str, int]], port: int = 0, source: str = ""
) -> AsyncIterator[int]:
    """The port on 127.0.0.1 from where each new connection goes on to the target of the moment."""
    pumps: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        local = (source, 0) if source else None
        there = await asyncio.open_connection(*target(), local_addr=local)
        for pair in ((reader, there[1]), (there[0], writer)):
            pumps.add(asyncio.get_running_loop().create_task(_pump(*pair)))

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in pumps:
            one.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                writer.write(piece)
                await writer.drain()
    finally:
        writer.close()
