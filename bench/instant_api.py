"""A double of the API server that answers at once: what a scheduler can do if nothing else waits.

It is no emulator: that one is ``tests.support.kube_api``. It lists nodes, ReplicaSets and pods by
watches, has one Lease, and takes Bindings, Events and conditions over HTTP/2 and TLS; each kind of
request has the version, the uid and the conflicts that a scheduler has to cope with, and nothing
else. A pod that is bound says so at once to all watches, and that it runs, as its kubelet would.

``POST /bench/offer?pods=…&rate=…`` adds pods, so many a second or (0) at once; ``GET /bench/state``
tells what became of them, in seconds of this machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop
from aiohttp import web
from koord_kube.protocol.resources import LEASES, PODS

from bench import instant_pods
from bench.open_loop import percentile
from bench.write_server import Answer, Write, WriteConnection

_PODS = PODS.path()
_LEASES = re.compile(LEASES.path(namespace="any").replace("any", "[^/]+") + "(?:/([^/]+))?")
_NAMED_POD = re.compile(rb"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(binding|status)")
_EVENTS = re.compile(rb"/api/v1/namespaces/[^/]+/events")
_PART = 500
"""Objects that are sent at once."""
_TICK_SECONDS = 0.002
_GONE = Answer(404, b'{"kind":"Status","status":"Failure","reason":"NotFound","code":404}')
_CONFLICT = Answer(409, b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409}')
_CREATED = Answer(201, b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}')


class _Named(msgspec.Struct):
    name: str
    uid: str = ""


class _Binding(msgspec.Struct):
    metadata: _Named
    target: _Named


_BINDING = msgspec.json.Decoder(_Binding)


class Watch:
    """Lines for one client, sent together once a turn."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._news = asyncio.Event()

    def put(self, *lines: bytes) -> None:
        self._lines += lines
        self._news.set()

    async def take(self) -> bytes:
        await self._news.wait()
        self._news.clear()
        lines, self._lines = self._lines, []
        return b"".join(lines)


class InstantApi:
    """``bound`` pods are on the nodes, ``waiting`` ones wait from the beginning."""

    def __init__(self, nodes: int, bound: int, waiting: int) -> None:
        self._nodes = nodes
        self._given = bound
        self._version = 1
        self._objects: dict[str, list[bytes]] = {}
        for kind, text in instant_pods.others(nodes):
            self._objects.setdefault(kind.path(), []).append(text)
        self._lease: dict[str, Any] | None = None
        self._watches: set[Watch] = set()
        self._node_of: dict[int, bytes] = {}
        # Of pods by number, without those that were bound from the beginning.
        self._added_at = array.array("d", [time.monotonic()] * waiting)
        self._bound_at = array.array("d", [0.0] * waiting)
        self._bindings = self._events = 0
        self._first = self._last = self._last_event = 0.0

    # ---- writes, over HTTP/2

    def write(self, request: Write) -> Answer:
        if found := _NAMED_POD.fullmatch(request.path):
            namespace, name, what = found.groups()
            try:
                number = instant_pods.pod_number(name)
            except ValueError:
                return _GONE
            if number >= self._pods or instant_pods.pod_namespace(number) != namespace:
                return _GONE
            return self._bind(number, request.body) if what == b"binding" else Answer(200, b"{}")
        if request.method == b"POST" and _EVENTS.fullmatch(request.path):
            self._events += 1
            self._last_event = time.monotonic()
            return Answer(201, request.body)
        return _GONE

    @property
    def _pods(self) -> int:
        return self._given + len(self._added_at)

    def _bind(self, number: int, body: bytes) -> Answer:
        binding = _BINDING.decode(body)
        uid = binding.metadata.uid.encode()
        if number < self._given or number in self._node_of or uid != instant_pods.pod_uid(number):
            return _CONFLICT
        now = time.monotonic()
        self._first = self._first or now
        self._last = self._bound_at[number - self._given] = now
        self._bindings += 1
        node = binding.target.name.encode()
        self._node_of[number] = node
        self._version += 2
        self._tell(
            _line(b"MODIFIED", instant_pods.bound(number, self._version - 1, node)),
            _line(b"MODIFIED", instant_pods.running(number, self._version, node)),
        )
        return _CREATED

    def _tell(self, *lines: bytes) -> None:
        for watch in self._watches:
            watch.put(*lines)

    # ---- reads and the Lease, over HTTP/1.1

    async def read(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/bench/"):
            return await self._control(request)
        if found := _LEASES.fullmatch(request.path):
            return await self._elect(request, found[1])
        if request.method != "GET":
            return web.Response(status=405)
        if request.query.get("limit") == "1":  # asked for the version alone
            return web.json_response({"metadata": {"resourceVersion": str(self._version)}})
        if "sendInitialEvents" not in request.query:
            return web.Response(status=410)  # nothing is kept to watch on from
        return await self._watch(request)

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        watch = Watch()
        has_pods = request.path == _PODS
        try:
            if has_pods:
                self._watches.add(watch)
            version = self._version
            texts = self._all_pods() if has_pods else iter(self._objects.get(request.path, ()))
            while some := list(islice(texts, _PART)):
                await response.write(b"".join(_line(b"ADDED", one) for one in some))
            await response.write(_line(b"BOOKMARK", _END % version))
            while True:
                await response.write(await watch.take())
        except ConnectionError:
            return response
        finally:
            self._watches.discard(watch)

    def _all_pods(self) -> Iterator[bytes]:
        for number in range(self._given):
            node = b"node-%05d" % (number % self._nodes)
            yield instant_pods.running(number, 1, node)
        for number in range(self._given, self._pods):
            node = self._node_of.get(number, b"")
            if node:
                yield instant_pods.running(number, self._version, node)
            else:
                yield instant_pods.pending(number, 1)

    async def _elect(self, request: web.BaseRequest, name: str | None) -> web.Response:
        if request.method == "GET":
            there = self._lease if self._lease and name else None
            return web.json_response(there or {}, status=200 if there else 404)
        given = json.loads(await request.read())
        if self._lease is not None:
            wanted = given["metadata"].get("resourceVersion")
            if wanted != self._lease["metadata"]["resourceVersion"]:
                return web.json_response({"kind": "Status", "code": 409}, status=409)
        self._version += 1
        self._lease = given
        given["metadata"]["resourceVersion"] = str(self._version)
        return web.json_response(given, status=200 if name else 201)

    # ---- the bench

    async def _control(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/bench/offer":
            self._bindings = self._events = 0
            self._first = 0.0
            pods, rate = int(request.query["pods"]), float(request.query["rate"])
            self._offering = asyncio.create_task(self._offer(pods, rate))  # noqa: TID251 - a double
            return web.json_response({})
        return web.json_response(self._state())

    async def _offer(self, pods: int, rate: float) -> None:
        """A steady rate, some pods each tick."""
        began, given = time.monotonic(), 0
        while given < pods:
            due = min(pods, int((time.monotonic() - began) * rate) + 1) if rate else pods
            lines = []
            now = time.monotonic()
            for _ in range(due - given):
                self._version += 1
                text = instant_pods.pending(self._pods, self._version)
                lines.append(_line(b"ADDED", text))
                self._added_at.append(now)
                self._bound_at.append(0.0)
            self._tell(*lines)
            given = due
            await asyncio.sleep(_TICK_SECONDS)

    def _state(self) -> dict[str, float]:
        """Of the last offer, or of the pods that waited at the beginning."""
        count = self._bindings
        state = {"bound": count, "events": self._events, "first": self._first, "last": self._last}
        state["last_event"] = self._last_event
        if count:
            pairs = zip(self._added_at[-count:], self._bound_at[-count:], strict=True)
            delays = sorted(bound - added for added, bound in pairs)
            state |= {"added": self._added_at[-count]}
            state |= {"p50": percentile(delays, 0.5), "p99": percentile(delays, 0.99)}
        return state


def _line(kind: bytes, text: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind, text)


_END = b'{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}'


class _ByProtocol(asyncio.Protocol):
    """Gives a connection to whom the handshake chose."""

    def __init__(self, by_name: Callable[[str], asyncio.Protocol]) -> None:
        self._by_name = by_name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = self._by_name(
            transport.get_extra_info("ssl_object").selected_alpn_protocol() or ""
        )
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)


async def _serve(options: argparse.Namespace) -> None:
    api = InstantApi(options.nodes, options.bound, options.waiting)
    http1 = web.Server(api.read, access_log=None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    context.set_alpn_protocols(["h2", "http/1.1"])

    def by_name(name: str) -> asyncio.Protocol:
        return WriteConnection(api.write) if name == "h2" else http1()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _ByProtocol(by_name), "127.0.0.1", 0, ssl=context, backlog=1000
    )
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    with suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("nodes", "bound", "waiting"):
        parser.add_argument(f"--{name}", type=int, default=0)
    for name in ("certificate", "key"):
        parser.add_argument(f"--{name}", type=Path)
    uvloop.run(_serve(parser.parse_args()))
