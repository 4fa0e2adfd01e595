"""Writes long JSON answers piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web

_STALLED_SECONDS = 30.0
"""Time after which a client that takes nothing is disconnected."""

_PIECE = 256 * 1024


async def prepare(request: web.Request) -> web.StreamResponse:
    """Begin an answer."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


async def write(response: web.StreamResponse, pieces: Iterable[bytes]) -> None:
    """Write in chunks of some size; other requests are answered in between.

    Raises:
        ConnectionError: the client is gone, or takes nothing.
    """
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE:
            await _send(response, b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        await _send(response, b"".join(waiting))


async def _send(response: web.StreamResponse, chunk: bytes) -> None:
    try:
        async with asyncio.timeout(_STALLED_SECONDS):
            await response.write(chunk)
    except TimeoutError:
        raise ConnectionResetError("the client takes nothing") from None
    await asyncio.sleep(0)  # a client that is fast enough would have the loop to itself
