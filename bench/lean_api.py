"""A double of the API server for a quarter of a million pods and more, in a process of its own.

It is no emulator: that one is ``tests.support.kube_api``. This one keeps versions and answers
lists page by page or by watches, watches with what happened since their version, reads, writes
(a stale version is a conflict) and TokenReviews; it checks nobody's rights, and no object against
a schema. Pods are made as they are asked for. Of its own it has some pods that come, run and go,
and the heartbeats of kubelets.

``GET /bench/writes`` tells how many writes there were, by verb and kind, ``/bench/reviews`` lets
each TokenReview take so many ``seconds`` from then on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import uvloop
from aiohttp import web
from koord_kube.protocol.resources import NODES, PODS, Resource
from koord_model.service_account_token import MANAGER_AUDIENCE

from bench import gated_cluster, large_cluster
from tests.support.merge_patch import merged

PODS_A_SECOND = 4
"""That come; each is five events: it is made, bound, runs, has run, and is gone."""

_HEARTBEAT_SECONDS = 300
"""Between two of a kubelet whose node does not change."""

_BOOKMARK_SECONDS = 45.0
_KEPT_EVENTS = 50_000
_PART = 500  # objects at once
_PATH = re.compile(
    r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?(?:/([^/]+))?"
)
_PODS = PODS.path()
_EXTRA = "authentication.kubernetes.io/node-name"
_encode = msgspec.json.Encoder().encode

Objects = Callable[[int], Iterable[tuple[Resource, str, dict[str, Any]]]]
"""Objects of a cluster of so many nodes, without pods."""


class Asked(NamedTuple):
    """``kind`` is the path of all objects of the kind."""

    kind: str
    namespace: str
    name: str
    sub: str


class Event(NamedTuple):
    version: int
    kind: str
    namespace: str
    name: str
    line: bytes
    object: bytes


class Watch(NamedTuple):
    asked: Asked
    events: asyncio.Queue[bytes]
    label: tuple[str, str] | None

    def wants(self, event: Event) -> bool:
        return (
            event.kind == self.asked.kind
            and self.asked.namespace in ("", event.namespace)
            and self.asked.name in ("", event.name)
            and (self.label is None or _has_label(event.object, self.label))
        )


class LeanApi:
    def __init__(self, nodes: int, objects: Objects) -> None:
        self._nodes = nodes
        self._pods = nodes * large_cluster.PODS
        self._version = 1000
        self._objects: dict[str, dict[tuple[str, str], bytes]] = {}
        self._kept: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._watches: set[tuple[int, Watch]] = set()
        self.writes: Counter[str] = Counter()
        self._review_seconds = 0.0
        for kind, namespace, given in objects(nodes):
            meta = {**given["metadata"], **({"namespace": namespace} if namespace else {})}
            meta["resourceVersion"] = str(self._version)
            there = self._objects.setdefault(kind.path(), {})
            there[namespace, meta["name"]] = _encode({**given, "metadata": meta})

    # ---- requests

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/bench/writes":
            return web.json_response(self.writes)
        if request.path == "/bench/reviews":
            self._review_seconds = float(request.query["seconds"])
            return web.json_response({})
        found = _PATH.fullmatch(request.path)
        if found is None:
            return web.Response(status=404, text="404 page not found")
        root, namespace, plural, name, sub = (group or "" for group in found.groups())
        asked = Asked(f"{root}/{plural}", namespace, name, sub)
        if request.method != "GET":
            return await self._write(asked, request)
        if name:
            there = self._objects.get(asked.kind, {}).get((namespace, name))
            return _json(there) if there else _refused(404, "NotFound", request.path)
        if selected := request.query.get("fieldSelector", "").partition("metadata.name=")[2]:
            asked = asked._replace(name=selected)
        if request.query.get("watch"):
            return await self._watch(asked, request)
        return _json(self._page(asked, request.query))

    def _page(self, asked: Asked, query: Any) -> bytes:
        version, _, start = query.get("continue", "").partition(":")
        version, first = version or str(self._version), int(start or 0)
        most = int(query.get("limit", 500))
        some, count = self._part(asked, first, most, query)
        meta = {"resourceVersion": version}
        if first + most < count:
            meta["continue"] = f"{version}:{first + most}"
        return b'{"metadata":%s,"items":[%s]}' % (_encode(meta), b",".join(some))

    def _part(self, asked: Asked, first: int, most: int, query: Any) -> tuple[list[bytes], int]:
        """Some of the objects, and how many there are."""
        if asked.kind == _PODS:
            numbers = self._pod_numbers(asked, query.get("fieldSelector", ""))
            some = [large_cluster.pod(number, 1000) for number in numbers[first : first + most]]
            return some, len(numbers)
        label = _label(query)
        chosen = [
            document
            for document in self._chosen(asked)
            if label is None or _has_label(document, label)
        ]
        return chosen[first : first + most], len(chosen)

    def _pod_numbers(self, asked: Asked, fields: str) -> range:
        """Those of a namespace, of a node, or all; of a selector only the node counts."""
        if "spec.nodeName=" in fields:
            node = fields.partition("spec.nodeName=")[2].partition(",")[0].removeprefix("node-")
            first = int(node) * large_cluster.PODS if node.isdigit() else self._pods
            return range(first, min(first + large_cluster.PODS, self._pods))
        if asked.namespace:
            given = asked.namespace.removeprefix("team-")
            first = int(given) if given.isdigit() else self._pods
            return range(first, self._pods, large_cluster.NAMESPACES)
        return range(self._pods)

    async def _initial(self, asked: Asked, response: web.StreamResponse, query: Any) -> None:
        """All there is, and that this was it."""
        version, first, count = str(self._version), 0, 1
        while first < count:
            some, count = self._part(asked, first, _PART, query)
            await response.write(b"".join(_line("ADDED", one) for one in some))
            first += _PART
        meta = {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}
        await response.write(_line("BOOKMARK", _encode({"metadata": meta})))

    def _chosen(self, asked: Asked) -> Iterator[bytes]:
        for (namespace, name), text in self._objects.get(asked.kind, {}).items():
            if asked.namespace in ("", namespace) and asked.name in ("", name):
                yield text

    async def _watch(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        watch = Watch(asked, asyncio.Queue(), _label(request.query))
        initial = "sendInitialEvents" in request.query
        since = self._version if initial else int(request.query.get("resourceVersion") or 0)
        for event in self._kept:
            if event.version > since and watch.wants(event):
                watch.events.put_nowait(event.line)
        entry = (id(watch), watch)
        self._watches.add(entry)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            if initial:
                await self._initial(asked, response, request.query)
            async for lines in self._lines(watch, float(request.query["timeoutSeconds"])):
                await response.write(lines)
        except ConnectionError:
            pass
        finally:
            self._watches.discard(entry)
        return response

    async def _lines(self, watch: Watch, seconds: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left, _BOOKMARK_SECONDS)):
                    lines = await watch.events.get()
            except TimeoutError:
                meta = {"resourceVersion": str(self._version)}
                yield _line("BOOKMARK", _encode({"metadata": meta}))
                continue
            while not watch.events.empty():
                lines += watch.events.get_nowait()
            yield lines

    async def _write(self, asked: Asked, request: web.Request) -> web.Response:
        given = msgspec.json.decode(await request.read() or b"{}")
        self.writes[f"{request.method} {asked.kind.rpartition('/')[2]}"] += 1
        if asked.kind.endswith("/tokenreviews"):
            await asyncio.sleep(self._review_seconds)
            return _json(_encode({**given, "status": _user(given["spec"]["token"])}), 201)
        name = asked.name or given["metadata"].get("name", "")
        key = asked.namespace, name
        there = self._objects.setdefault(asked.kind, {})
        before = msgspec.json.decode(there[key]) if key in there else None
        if request.method == "POST":
            if before is not None:
                return _refused(409, "AlreadyExists", name)
            meta = {**given["metadata"], "uid": large_cluster.uid("ee", self._version)}
            return _json(self._put(asked, key, {**given, "metadata": meta}), 201)
        if before is None:
            return _refused(404, "NotFound", name)
        wanted = (given.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != before["metadata"]["resourceVersion"]:
            return _refused(409, "Conflict", name)
        if request.method == "DELETE":
            self._tell("DELETED", asked.kind, *key, there.pop(key))
            return _json(b'{"kind":"Status","status":"Success"}')
        after = given if request.method == "PUT" else merged(before, given)
        return _json(self._put(asked, key, after))

    # ---- objects and their watchers

    def _put(self, asked: Asked, key: tuple[str, str], given: Any) -> bytes:
        there = self._objects[asked.kind]
        kind = "MODIFIED" if key in there else "ADDED"
        self._version += 1
        namespace = {"namespace": key[0]} if key[0] else {}
        meta = {**given["metadata"], **namespace, "resourceVersion": str(self._version)}
        there[key] = text = _encode({**given, "metadata": meta})
        self._tell(kind, asked.kind, *key, text)
        return text

    def _tell(self, kind: str, path: str, namespace: str, name: str, text: bytes) -> None:
        event = Event(self._version, path, namespace, name, _line(kind, text), text)
        self._kept.append(event)
        for _, watch in self._watches:
            if watch.wants(event):
                watch.events.put_nowait(event.line)

    # ---- what happens by itself

    async def churn(self) -> None:
        """Pods come and go, each on another node."""
        number = 0
        while True:
            await asyncio.sleep(1 / PODS_A_SECOND)
            number += 1
            for age, kind, phase in (
                (0, "ADDED", "Pending"),
                (1, "MODIFIED", "Pending"),
                (8, "MODIFIED", "Running"),
                (120, "MODIFIED", "Succeeded"),
                (124, "DELETED", "Succeeded"),
            ):
                if (which := number - age) > 0:
                    node = large_cluster.node_name(which * 97 % self._nodes) if age else ""
                    self._version += 1
                    text = large_cluster.job(which, node, phase, self._version)
                    self._tell(kind, _PODS, "team-0", f"job-{which}", text)

    async def heartbeats(self) -> None:
        asked = Asked(NODES.path(), "", "", "")
        number = 0
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS / self._nodes)
            number = (number + 1) % self._nodes
            key = "", large_cluster.node_name(number)
            there = msgspec.json.decode(self._objects[asked.kind][key])
            for one in there["status"]["conditions"]:
                one["lastHeartbeatTime"] = f"2026-11-20T10:{number % 60:02d}:00Z"
            self._put(asked, key, there)


def _user(token: str) -> dict[str, Any]:
    """Tokens say themselves of which node's koordlet they are."""
    payload = token.split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"]
    if not said.isdecimal():
        return {"user": {}, "error": "invalid bearer token"}
    name = large_cluster.node_name(int(said))
    user = {
        "username": "system:serviceaccount:koordinator-system:koordlet",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": {_EXTRA: [name]},
    }
    return {"authenticated": True, "user": user, "audiences": [MANAGER_AUDIENCE]}


def _label(query: Any) -> tuple[str, str] | None:
    """The label that a request selects by; of selectors there is only this one here."""
    name, equals, value = query.get("labelSelector", "").partition("=")
    return (name, value) if equals else None


def _has_label(text: bytes, label: tuple[str, str]) -> bool:
    labels = msgspec.json.decode(text)["metadata"].get("labels") or {}
    return bool(labels.get(label[0]) == label[1])


def _line(kind: str, text: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), text)


def _json(text: bytes, status: int = 200) -> web.Response:
    return web.Response(body=text, status=status, content_type="application/json")


def _refused(code: int, reason: str, what: str) -> web.Response:
    said = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": what}
    return web.json_response(said, status=code)


async def _serve(nodes: int, objects: Objects) -> None:
    api = LeanApi(nodes, objects)
    app = web.Application(client_max_size=16 << 20)
    app.router.add_route("*", "/{tail:.*}", api.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    with suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as group:
            group.create_task(api.churn())
            group.create_task(api.heartbeats())


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), (gated_cluster if sys.argv[2:] else large_cluster).objects))
