"""An extender that answers over HTTP as a test tells it to. A double: it decides nothing itself."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.support.clusters.extenders import filter_result
from tests.support.clusters.selectors import Object


class ExtenderServer:
    """Gives the ``answers`` that ``random_extenders`` describes, by path; keeps what it was sent.

    An answer may also be a function of what was sent, which returns what is answered.
    """

    def __init__(self, context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._port = port
        self._context = context
        self.url = ""
        self.answers: Object = {}
        self.requests: list[Object] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._context)
        await site.start()
        host, port = runner.addresses[0]
        self.url = f"http{'s' if self._context else ''}://{host}:{port}"
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body, type_ = json.loads(await request.read()), request.headers["Content-Type"]
        sent = {"path": request.path, "method": request.method, "type": type_, "body": body}
        self.requests.append(sent)
        reported = self.answers.get(request.path, {"status": 404, "body": ""})
        if callable(reported):
            return web.json_response(await reported(body))
        if "passing" in reported:
            return web.json_response(filter_result(reported, body))
        return web.Response(status=reported["status"], text=reported["body"])
