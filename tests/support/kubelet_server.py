"""A double of a kubelet's API: its list of pods and its configuration, over TLS, for who may.

It holds its clients to the real one's rules: a token that is not known is refused (401),
one that is but may not (403) too. Without TLS it is the read-only port, which asks for no
token. Not here: client certificates, and a list that is made from anything but ``pods``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web
from koord_model.qos import kube_qos
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.ports import free_port


class KubeletServer:
    """Serves at ``port`` while entered; what a test changes holds from the next request on.

    ``tokens`` may see everything, ``strangers`` are known and may nothing. ``slow`` is how
    many seconds each answer takes. ``asked`` are the paths and tokens of all requests.
    ``answer`` makes other answers than the list.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.tokens: frozenset[str] = frozenset()
        self.strangers: frozenset[str] = frozenset()
        self.slow = 0.0
        self.pods: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {"cpuManagerPolicy": "none", "topologyManagerPolicy": "none"}
        self.asked: list[tuple[str, str]] = []
        self.connections: set[Any] = set()
        self.answer: Callable[[], web.Response] | None = None
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve; after ``stop`` again at the same port, with the certificate of ``tls``."""
        app = web.Application()
        app.router.add_get("/pods/", self._pods)
        app.router.add_get("/configz", self._configz)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        self.port = self.port or free_port()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls)
        await site.start()

    async def stop(self) -> None:
        """Be gone: connections break off and are refused."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def _pods(self, request: web.Request) -> web.Response:
        await self._admit(request)
        if self.answer is not None:
            return self.answer()
        items = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        return web.json_response(items)

    async def _configz(self, request: web.Request) -> web.Response:
        await self._admit(request)
        return web.json_response({"kubeletconfig": self.config})

    async def _admit(self, request: web.Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append((request.path, token))
        self.connections.add(request.transport)
        await asyncio.sleep(self.slow)
        if token in self.strangers:
            raise web.HTTPForbidden
        if self.tls and token not in self.tokens:
            raise web.HTTPUnauthorized


def listed(record: PodRecord) -> dict[str, Any]:
    """A running pod as the kubelet lists it."""
    pod = record.pod
    names = [one.name for one in record.containers.values()]
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.labels),
            "annotations": dict(pod.annotations),
        },
        "spec": {
            "priority": record.demand.priority if record.demand else 0,
            "containers": [{"name": name, "resources": {}} for name in names],
        },
        "status": {
            "phase": "Running",
            "qosClass": kube_qos(pod.cgroup_parent).value,
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": one.name,
                    "containerID": f"containerd://{ident}",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
                for ident, one in record.containers.items()
            ],
        },
    }
