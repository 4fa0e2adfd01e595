"""A double of the Kubernetes API server that holds its clients to the real one's rules.

Resource versions grow with each change, creating what is there and replacing what has
changed since are conflicts, ``/status`` alone changes a status, and a watch from a
version that was compacted is Gone. Pods are evicted as ``kube_evictions`` says, and stay,
marked for deletion, until the test (their kubelet) deletes them. Not here: schemas,
defaults, admission, pages of lists, and any patch but the JSON merge patch.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from aiohttp import web
from koord_kube.api import Object
from koord_kube.resources import (
    DEVICES,
    EVENTS,
    LEASES,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    Resource,
)

from tests.support import kube_evictions
from tests.support.kube_evictions import PDBS, EvictionRefused
from tests.support.merge_patch import merged

WITH_STATUS = frozenset({NODES, NODE_METRICS, NODE_SLOS, PODS, PDBS})
"""Whose definitions have the status subresource."""

BUILT_IN = frozenset({NODES, LEASES, PODS, EVENTS, PDBS})

_HALF = b'{"type":"MODIFIED","object":{"metadata":{"na'


class Key(NamedTuple):
    """What an object is called; ``namespace`` is "" for what has none."""

    resource: Resource
    namespace: str
    name: str


@dataclass
class Fault:
    """What the next ``times`` requests of ``verb`` about ``plural`` get; "" is any.

    With ``status`` that answer; with ``hang`` none; otherwise the true one, ``slow``
    seconds late.
    """

    times: int = 1
    status: int = 0
    retry_after: int = 0
    message: str = "this is a test"
    slow: float = 0.0
    hang: bool = False
    verb: str = ""
    plural: str = ""

    def takes(self, verb: str, plural: str) -> bool:
        """Whether it is this one's turn; then it is used up by one."""
        wanted = self.times > 0 and self.verb in ("", verb) and self.plural in ("", plural)
        self.times -= wanted
        return wanted


@dataclass(frozen=True)
class Asked:
    """A request; ``verb`` as Kubernetes names it: get, list, watch, create, update, patch..."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    token: str = ""


@dataclass(eq=False)
class _Watch:
    """An open watch; its queue holds lines to send, or what to do with the connection."""

    resource: Resource
    namespace: str
    name: str
    bookmarks: bool
    queue: asyncio.Queue[bytes | str] = field(default_factory=asyncio.Queue)

    def wants(self, key: Key) -> bool:
        return (
            key.resource == self.resource
            and self.namespace in ("", key.namespace)
            and self.name in ("", key.name)
        )


class _Refused(Exception):
    def __init__(
        self, status: int, reason: str, message: str, retry_after: int = 0, budget: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.retry_after = status, reason, retry_after
        self.budget = budget

    def answer(self) -> web.Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status in (301, 302, 307, 308):
            headers["Location"] = "/elsewhere"
        return web.json_response(self.document(), status=self.status, headers=headers)

    def document(self) -> Object:
        details: Object = {"retryAfterSeconds": self.retry_after} if self.retry_after else {}
        if self.budget:
            details["causes"] = [{"reason": "DisruptionBudget", "message": self.budget}]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": details,
            "code": self.status,
        }


class KubeApi:
    """Serves at ``url`` while entered; what a test does to it is at once seen by clients.

    ``tokens`` are the bearer tokens that are good now, none: all are. ``gone_as_status``
    says 410 by the HTTP status and not by an ERROR event: real servers do either.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        tokens: frozenset[str] = frozenset(),
        installed: frozenset[Resource] = frozenset(
            {NODES, LEASES, NODE_METRICS, NODE_SLOS, NODE_TOPOLOGIES, DEVICES, PODS, EVENTS, PDBS}
        ),
    ) -> None:
        self.tokens = tokens
        self.installed = set(installed)
        self.objects: dict[Key, Object] = {}
        self.asked: list[Asked] = []
        self.faults: list[Fault] = []
        self.gone_as_status = False
        self.port = 0
        self._tls = tls
        self._version = 1000
        self._compacted = 1000
        self._log: list[tuple[int, str, Key, Object]] = []
        self._watches: set[_Watch] = set()
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Serve; after ``stop`` again at the same port, with the same objects."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone: open watches break off, connections are refused."""
        self._tell("cut")
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    # What a test does, as another client with all rights.

    def put(self, resource: Resource, given: Object, namespace: str = "") -> Object:
        """Create or replace an object with its status; returns it as it is kept."""
        key = Key(resource, namespace, given["metadata"]["name"])
        before = self.objects.get(key)
        return copy.deepcopy(self._keep(key, copy.deepcopy(given), before))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object as it is kept; ``KeyError`` where there is none."""
        return copy.deepcopy(self.objects[Key(resource, namespace, name)])

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        key = Key(resource, namespace, name)
        last = self.objects.pop(key)
        self._version += 1
        last["metadata"]["resourceVersion"] = str(self._version)
        self._happened("DELETED", key, last)

    def fail(self, **fault: Any) -> Fault:
        """Let the next requests fail, see ``Fault``."""
        self.faults.append(Fault(**fault))
        return self.faults[-1]

    def compact(self) -> None:
        """Forget what has happened: watches from before are Gone."""
        self._version += 1
        self._compacted = self._version
        self._log.clear()

    def bookmark(self) -> None:
        """Tell the open watches that asked for it how far they are."""
        for watch in self._watches:
            if watch.bookmarks:
                watch.queue.put_nowait(self._bookmark(watch.resource))

    def end_watches(self) -> None:
        """Open watches end as after their timeout."""
        self._tell("end")

    def cut_watches(self) -> None:
        """Open watches break off in the middle of an event."""
        self._tell("half")

    def expire_watches(self) -> None:
        """Open watches get an ERROR event with 410."""
        self.compact()
        for watch in self._watches:
            watch.queue.put_nowait(_line("ERROR", self._gone().document()))
            watch.queue.put_nowait("end")

    def silence_watches(self) -> None:
        """Open watches stay open and say nothing any more, as where a host is gone."""
        self._tell("silence")

    def count(self, verb: str, plural: str = "") -> int:
        """How many such requests there were."""
        return sum(one.verb == verb and plural in one.path for one in self.asked)

    async def wait_for(self, verb: str, times: int = 1, plural: str = "") -> None:
        """Until so many such requests have arrived in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count(verb, plural) >= times)

    def open_watches(self) -> int:
        return len(self._watches)

    # What is kept.

    def _keep(self, key: Key, new: Object, before: Object | None) -> Object:
        meta = new.setdefault("metadata", {})
        old = (before or {}).get("metadata", {})
        meta["name"] = key.name
        if key.namespace:
            meta["namespace"] = key.namespace
        meta["uid"] = old.get("uid") or str(uuid.uuid4())
        meta["creationTimestamp"] = old.get("creationTimestamp", "2026-01-01T00:00:00Z")
        meta["generation"] = old.get("generation", 0) + (
            before is None or _wished(before) != _wished(new)
        )
        meta["resourceVersion"] = old.get("resourceVersion", "")
        group = f"{key.resource.group}/" if key.resource.group else ""
        new["apiVersion"], new["kind"] = f"{group}{key.resource.version}", key.resource.kind
        if new == before:  # The real one writes nothing either, and tells nobody.
            return new
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        self.objects[key] = new
        self._happened("ADDED" if before is None else "MODIFIED", key, new)
        return new

    def _happened(self, type_: str, key: Key, given: Object) -> None:
        kept = copy.deepcopy(given)
        self._log.append((self._version, type_, key, kept))
        for watch in self._watches:
            if watch.wants(key):
                watch.queue.put_nowait(_line(type_, kept))

    def _tell(self, what: str) -> None:
        for watch in self._watches:
            watch.queue.put_nowait(what)

    def _bookmark(self, resource: Resource) -> bytes:
        meta = {"resourceVersion": str(self._version), "creationTimestamp": None}
        return _line("BOOKMARK", {"kind": resource.kind, "metadata": meta})

    def _gone(self) -> _Refused:
        return _Refused(410, "Expired", f"too old resource version (now {self._version})")

    # What a client asks.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except _Refused as refused:
            return refused.answer()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        found = _find(request.path, self.installed)
        verb = _verb(request, found)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        body = await _body(request)
        self.asked.append(Asked(verb, request.path, dict(request.query), body, token))
        async with self._arrived:
            self._arrived.notify_all()
        if self.tokens and token not in self.tokens:
            raise _Refused(401, "Unauthorized", "Unauthorized")
        await self._suffer(verb, found)
        if found is None:  # No Status: the real one knows nothing of such a path.
            return web.Response(status=404, text="404 page not found\n")
        if verb == "watch":
            return await self._watch(request, found.key)
        if verb == "list":
            return self._list(request, found.key)
        done = self._one(verb, found, body)
        return web.json_response(done, status=201 if verb == "create" else 200)

    async def _suffer(self, verb: str, found: _Found | None) -> None:
        plural = found.key.resource.plural if found else ""
        fault = next((one for one in self.faults if one.takes(verb, plural)), None)
        if fault is None:
            return
        if fault.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(fault.slow)
        if fault.status:
            raise _Refused(fault.status, "Test", fault.message, fault.retry_after)

    def _list(self, request: web.Request, key: Key) -> web.Response:
        wanted = _Watch(key.resource, key.namespace, _selected(request), bookmarks=False)
        items = [copy.deepcopy(self.objects[one]) for one in self.objects if wanted.wants(one)]
        if key.resource in BUILT_IN:  # Their items have neither in a list; custom ones' have.
            for item in items:
                del item["apiVersion"], item["kind"]
        return web.json_response(
            {
                "kind": f"{key.resource.kind}List",
                "metadata": {"resourceVersion": str(self._version)},
                "items": items,
            }
        )

    async def _watch(self, request: web.Request, key: Key) -> web.StreamResponse:
        since = request.query.get("resourceVersion", "")
        watch = _Watch(
            key.resource,
            key.namespace,
            _selected(request),
            request.query.get("allowWatchBookmarks") in ("true", "1"),
        )
        too_old = since not in ("", "0") and int(since) < self._compacted
        if too_old and self.gone_as_status:
            raise self._gone()
        if since and int(since) > self._version:
            raise _Refused(504, "Timeout", f"Too large resource version: {since}", 1)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if too_old:
            await response.write(_line("ERROR", self._gone().document()))
            return response
        for line in self._missed(watch, since):
            watch.queue.put_nowait(line)
        self._watches.add(watch)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "1800"))):
                await _send(watch, request, response)
        except TimeoutError:
            pass
        finally:
            self._watches.discard(watch)
        return response

    def _missed(self, watch: _Watch, since: str) -> list[bytes]:
        if since in ("", "0"):
            return [_line("ADDED", one) for key, one in self.objects.items() if watch.wants(key)]
        return [
            _line(type_, one)
            for version, type_, key, one in self._log
            if version > int(since) and watch.wants(key)
        ]

    def _one(self, verb: str, found: _Found, body: Any) -> Object:
        key, sub = found.key, found.subresource
        if verb == "create" and not sub:
            return self._create(key, body)
        before = self.objects.get(key)
        if before is None:
            raise _Refused(404, "NotFound", f'{key.resource.plural} "{key.name}" not found')
        if verb == "create":
            return self._evict(key, before, body)
        if verb == "get":
            return before
        if verb == "delete":
            self.delete(key.resource, key.name, key.namespace)
            return before
        new = merged(before, body) if verb == "patch" else body
        self._check(key, before, new, replacing=verb == "update")
        return self._keep(key, _split(key.resource, sub, before, new), before)

    def _evict(self, key: Key, pod: Object, body: Object) -> Object:
        budgets = [one for kind, one in self.objects.items() if kind.resource == PDBS]
        try:
            kube_evictions.check_request(key.name, key.namespace, body)
            if kube_evictions.several_budgets(pod, budgets):
                return kube_evictions.failed_status()
            spent = kube_evictions.spend(pod, budgets)
            if spent is not None:
                self.put(PDBS, spent, key.namespace)
            kube_evictions.check_uid(pod, body)
        except EvictionRefused as error:
            raise _Refused(
                error.status, error.reason, str(error), error.asked, error.cause
            ) from None
        ending = kube_evictions.ending(pod, body)
        if ending is None:
            self.delete(PODS, key.name, key.namespace)
        else:
            self.put(PODS, ending, key.namespace)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _create(self, key: Key, body: Object) -> Object:
        name = body.get("metadata", {}).get("name", "")
        if not name:
            raise _Refused(422, "Invalid", "metadata.name: Required value: name is required")
        key = key._replace(name=name)
        self._check_kind(key, body)
        if key.resource == EVENTS:
            self._check_event(key, body)
        if key in self.objects:
            message = f'{key.resource.plural} "{name}" already exists'
            raise _Refused(409, "AlreadyExists", message)
        new = copy.deepcopy(body)
        if key.resource in WITH_STATUS:
            new.pop("status", None)
        return self._keep(key, new, None)

    def _check(self, key: Key, before: Object, new: Object, *, replacing: bool) -> None:
        self._check_kind(key, new)
        meta = new.get("metadata", {})
        if meta.get("name") != key.name:
            raise _Refused(400, "BadRequest", "the name of the object does not match the URL's")
        version = meta.get("resourceVersion", "")
        if replacing and not version and key.resource != NODES:
            message = "metadata.resourceVersion: Invalid value: must be specified for an update"
            raise _Refused(422, "Invalid", message)
        if version and version != before["metadata"]["resourceVersion"]:
            message = f'Operation cannot be fulfilled on {key.resource.plural} "{key.name}": '
            raise _Refused(409, "Conflict", message + "the object has been modified")
        if meta.get("uid") not in (None, "", before["metadata"]["uid"]):
            raise _Refused(409, "Conflict", "Precondition failed: UID in precondition differs")

    @staticmethod
    def _check_event(key: Key, given: Object) -> None:
        """The rules of core v1 for one without ``eventTime``, and those of its type."""
        if given.get("involvedObject", {}).get("namespace", "") != key.namespace:
            message = "involvedObject.namespace: Invalid value: does not match event.namespace"
            raise _Refused(422, "Invalid", message)
        if given.get("metadata", {}).get("namespace", key.namespace) != key.namespace:
            raise _Refused(400, "BadRequest", "the namespace does not match the request's")

    @staticmethod
    def _check_kind(key: Key, given: Object) -> None:
        group = f"{key.resource.group}/" if key.resource.group else ""
        wanted = (f"{group}{key.resource.version}", key.resource.kind)
        if (given.get("apiVersion", ""), given.get("kind", "")) != wanted:
            raise _Refused(400, "BadRequest", f"apiVersion and kind have to be {wanted}")


@dataclass(frozen=True)
class _Found:
    key: Key
    subresource: str = ""


def _find(path: str, installed: set[Resource]) -> _Found | None:
    """What a path is about; ``None`` where there is no such thing."""
    for resource in installed:
        root = resource.path()
        prefix, _, plural = root.rpartition("/")
        if not path.startswith(f"{prefix}/"):
            continue
        parts = path.removeprefix(f"{prefix}/").split("/")
        namespace = ""
        if resource.namespaced and parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        if parts[0] != plural or len(parts) > 3 or "" in parts:
            continue
        name, sub = [*parts[1:], "", ""][:2]
        if sub and not (
            (sub == "status" and resource in WITH_STATUS)
            or (sub == "eviction" and resource == PODS)
        ):
            continue
        return _Found(Key(resource, namespace, name), sub)
    return None


def _verb(request: web.Request, found: _Found | None) -> str:
    if request.method == "GET" and (found is None or not found.key.name):
        return "watch" if request.query.get("watch") in ("true", "1") else "list"
    words = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    return words[request.method]


async def _body(request: web.Request) -> Any:
    if request.method in ("GET", "DELETE"):
        return None
    wanted = "merge-patch+json" if request.method == "PATCH" else "json"
    if request.content_type != f"application/{wanted}":
        raise _Refused(415, "UnsupportedMediaType", f"expected application/{wanted}")
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise _Refused(400, "BadRequest", str(error)) from None


async def _send(watch: _Watch, request: web.Request, response: web.StreamResponse) -> None:
    while True:
        line = await watch.queue.get()
        if isinstance(line, bytes):
            await response.write(line)
        elif line == "end":
            return
        elif line == "silence":
            await asyncio.Event().wait()
        else:
            if line == "half":
                await response.write(_HALF)
            if request.transport is not None:
                request.transport.close()
            return


def _selected(request: web.Request) -> str:
    """The name that the field selector asks for, "" is all."""
    selector = request.query.get("fieldSelector", "")
    if selector and not selector.startswith("metadata.name="):
        raise _Refused(400, "BadRequest", f'field label not supported: "{selector}"')
    return selector.removeprefix("metadata.name=")


def _split(resource: Resource, sub: str, before: Object, new: Object) -> Object:
    """What a request may change: the status at /status, elsewhere all but the status."""
    if resource not in WITH_STATUS:
        return copy.deepcopy(new)
    kept = copy.deepcopy(before if sub else new)
    source = new if sub else before
    kept.pop("status", None)
    if "status" in source:
        kept["status"] = copy.deepcopy(source["status"])
    return kept


def _wished(given: Object) -> Object:
    return {name: one for name, one in given.items() if name not in ("metadata", "status")}


def _line(type_: str, given: Object) -> bytes:
    return json.dumps({"type": type_, "object": given}).encode() + b"\n"
