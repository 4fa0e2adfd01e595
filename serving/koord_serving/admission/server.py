"""The HTTPS server of the webhooks: where it listens, how healthy it is, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Generic

from aiohttp import web
from koord_service.logs import get_log
from prometheus_client import CollectorRegistry

from koord_serving.admission.callers import WebhookCallers
from koord_serving.admission.core.admission import V, Webhook
from koord_serving.admission.core.caller_rules import CallerRules
from koord_serving.admission.handler import AdmissionHandler, AdmissionLimits
from koord_serving.admission.metrics import WebhookMetrics
from koord_serving.tls.https_listener import listen, make_runner
from koord_serving.tls.server_tls import ListenerTls, ServerTls

log = get_log("manager.webhooks")

PORT = 9876
_ANY = "0.0.0.0"  # noqa: S104 - the default of a server in a pod
_FROM_HERE = {_ANY: "127.0.0.1", "::": "::1"}
_LIMITS = AdmissionLimits()
HEALTH_PATH = "/healthz"
_EVERYBODY = WebhookCallers(CallerRules(), None)
_IDLE_SECONDS = 120.0
"""Longer than API servers keep idle connections (90 s): they close them, not we under a request."""


def _utc() -> datetime:
    return datetime.now(UTC)


class AdmissionServer(Generic[V]):
    """Serves ``webhooks`` by path with what ``tls`` shows, counting in ``registry``.

    Only ``callers`` are answered. ``problem`` says what else keeps this replica from answering well
    ("" for nothing), such as a view of the cluster that is not complete yet.
    """

    def __init__(
        self,
        webhooks: Mapping[str, Webhook[V]],
        view: Callable[[], V],
        tls: ServerTls,
        registry: CollectorRegistry,
        *,
        host: str | None = None,
        port: int = PORT,
        limits: AdmissionLimits = _LIMITS,
        callers: WebhookCallers = _EVERYBODY,
        problem: Callable[[], str] = str,
        now: Callable[[], datetime] = _utc,
    ) -> None:
        self._webhooks = webhooks
        self._tls = tls
        self._host = host
        self._port = port
        self._limits = limits
        self._problem = problem
        self._now = now
        self._callers = callers
        self._answering = AdmissionHandler(view, WebhookMetrics(registry), limits, callers)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._draining = False

    @property
    def host(self) -> str:
        """The address at which it is reached from here; the loopback one if it is at all."""
        return _FROM_HERE.get(self._host or _ANY, self._host or _ANY)

    @property
    def port(self) -> int:
        """Port of the listener; of port 0 the one picked, once started."""
        return self._port

    async def start(self) -> None:
        """Listen; raises ``OSError`` where that cannot be."""
        app = web.Application()
        app.router.add_get(HEALTH_PATH, self._health)
        for path, webhook in self._webhooks.items():
            app.router.add_post(path, partial(self._serve, webhook))
        app.on_response_prepare.append(self._say_goodbye)
        self._runner = make_runner(
            app, keepalive_timeout=_IDLE_SECONDS, shutdown_timeout=self._limits.answer
        )
        await self._runner.setup()
        tls = ListenerTls(self._tls, asks=self._callers.asks_for_certificates)
        self._callers.listens(tls)
        self._listener = await listen(self._runner, self._host, self._port, tls.context)
        self._port = self._listener.sockets[0].getsockname()[1]
        log.info("serving webhooks", port=self._port, webhooks=len(self._webhooks))

    async def stop(self, drain: float = 5.0) -> None:
        """Be unhealthy for ``drain`` seconds, so that clients go elsewhere; then stop.

        What is under way is answered.
        """
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._draining = True
        await asyncio.sleep(drain)
        if self._listener is not None:
            self._listener.close()
        # The library would read no more of bodies that are under way.
        await self._answering.wait_idle()
        await runner.cleanup()

    def problem(self) -> str:
        """Return why this replica should get no requests now, in a line; "" if it should."""
        if self._draining:
            return "this replica is stopping"
        if reason := self._tls.problem(self._now()):
            return f"certificate: {reason}"
        return self._callers.problem or self._problem()

    async def _serve(self, webhook: Webhook[V], request: web.Request) -> web.Response:
        return await self._answering.answer(request, webhook)

    async def _health(self, _request: web.Request) -> web.Response:
        reason = self.problem()
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    async def _say_goodbye(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Close kept connections, so that clients find another replica in time."""
        if self._draining:
            response.force_close()
            response.headers["Connection"] = "close"  # by now it is not set any more by itself
