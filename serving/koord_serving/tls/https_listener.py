"""Listening for HTTPS, with bounds on idle clients.

A connection costs some 50 KiB. When there are too many, one of the address that holds most ends:
not that of an API server, which keeps its own for hours. It is the oldest one without a request
under way, and the oldest of all if each has one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from koord_service.connection_limit import ConnectionLimit

CONNECTIONS = 2048
"""As many as requests at once: API servers have a connection for each."""
HANDSHAKE_SECONDS = 5.0

_BACKLOG = 1024


class _NoFragments(logging.Filter):
    """Drops the library's messages about bytes that are not HTTP, since they quote them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


_library_log = logging.getLogger(f"{__name__}.http")
_library_log.addFilter(_NoFragments())


def make_runner(app: web.Application, **more: Any) -> web.AppRunner:
    """A runner that logs nothing of what clients send, who may be anybody: tokens, for example."""
    return web.AppRunner(app, access_log=None, logger=_library_log, **more)


async def listen(
    runner: web.AppRunner, host: str | None, port: int, context: ssl.SSLContext
) -> asyncio.Server:
    """Serve what was set up; to be closed before the runner is cleaned up.

    Raises:
        OSError: the address cannot be listened at.
    """
    server = runner.server
    if server is None:
        raise RuntimeError("the runner is not set up")
    _bound(server, CONNECTIONS)
    return await asyncio.get_running_loop().create_server(
        server,
        host,
        port,
        ssl=context,
        backlog=_BACKLOG,
        ssl_handshake_timeout=HANDSHAKE_SECONDS,
    )


def _bound(server: web.Server, most: int) -> None:
    """Bound the open connections that have finished the TLS handshake."""
    limit: ConnectionLimit[web.RequestHandler] = ConnectionLimit(most, most)
    transports: dict[web.RequestHandler, asyncio.Transport] = {}
    answering: set[web.RequestHandler] = set()
    made, lost, answer = server.connection_made, server.connection_lost, server.request_handler

    def connection_made(handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        made(handler, transport)
        peer = _address(transport)
        if rivals := limit.rivals(peer, bounded=False):
            forget(next(filter(is_idle, rivals), rivals[0])).abort()
        limit.add(handler, peer)
        transports[handler] = transport

    def is_idle(handler: web.RequestHandler) -> bool:
        return handler not in answering and not transports[handler].get_write_buffer_size()

    def forget(handler: web.RequestHandler) -> asyncio.Transport:
        limit.remove(handler)
        return transports.pop(handler)

    def connection_lost(handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        if handler in transports:
            forget(handler)
        lost(handler, exc)

    async def request_handler(request: web.BaseRequest) -> web.StreamResponse:
        answering.add(request.protocol)
        try:
            return await answer(request)
        finally:
            answering.discard(request.protocol)

    server.connection_made = connection_made  # type: ignore[method-assign]
    server.connection_lost = connection_lost  # type: ignore[method-assign]
    server.request_handler = request_handler


def _address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
