"""A double of the Kubernetes API server that holds its clients to the real one's rules.

Clients see what they see of a real one: HTTP, discovery, lists in pages, watches, the rules
of each kind, admission by webhooks, definitions with schemas, and groups that others serve;
each has a module beside this one, which says what of it is not here. Pods are evicted as
``kube_evictions`` says, and stay, marked for deletion, until the test (their kubelet)
deletes them. Not here at all: protobuf, tables, OpenAPI documents and server-side apply.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import API_SERVICES, CONFIG_MAPS, Resource

from tests.support.certificates import Certificates
from tests.support.kube_access import Access, Identity
from tests.support.kube_aggregation import Aggregation, front_proxy_config_map, service_of
from tests.support.kube_discovery import discovery
from tests.support.kube_kinds import REVIEWS, USUAL, api_version, grouped, qualified
from tests.support.kube_list_options import NO_PROGRESS, check_list_options, check_watch_options
from tests.support.kube_outgoing import Trust
from tests.support.kube_refusal import Refused, bad_request, not_found
from tests.support.kube_requests import (
    Asked,
    Fault,
    Found,
    check_method,
    check_own_groups,
    find,
    read_body,
    verb_of,
)
from tests.support.kube_selecting import Key, selection
from tests.support.kube_store import Watch, as_listed, line
from tests.support.kube_writes import Write, Writes
from tests.support.ports import free_port

_HALF = b'{"type":"MODIFIED","object":{"metadata":{"na'
_INITIAL_END = "k8s.io/initial-events-end"
_MARKED_BEFORE = 2.0
"""Seconds; so long before its end a watch that takes bookmarks gets one."""
_PROXY_NAME = "server"
"""The common name in the certificates that ``certificates`` makes."""


class KubeApi(Writes):
    """Serves at ``url`` while entered; what a test does to it is at once seen by clients.

    ``tokens`` are the bearer tokens that are good now, with those of ``access``; none: all
    are. ``gone_as_status`` says 410 by the HTTP status and not by an ERROR event: real servers
    do either. Without ``streams_lists`` it is a server before
    Kubernetes 1.32 or of 1.33, without ``knows_progress`` one before an etcd older than 3.4.31.
    The next ``breaks_lists`` watches that begin with a list end in it; without ``marks_lists``
    nothing says where it ends. ``services`` says where the services that webhooks and
    APIServices name listen in truth; to those of APIServices the server shows ``front_proxy``.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        tokens: frozenset[str] = frozenset(),
        installed: frozenset[Resource] = USUAL,
        front_proxy: Certificates | None = None,
    ) -> None:
        super().__init__(installed, Trust())
        self.tokens = tokens
        self.access = Access()
        self.asked: list[Asked] = []
        self.faults: list[Fault] = []
        self.gone_as_status = False
        self.streams_lists = True
        self.knows_progress = True
        self.breaks_lists = 0
        self.marks_lists = True
        self.port = 0
        self._tls = tls
        self._aggregation = Aggregation(self.services, Trust(front_proxy))
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        if front_proxy is not None:
            authority = front_proxy.authority.read_text()
            given = front_proxy_config_map(authority, authority, _PROXY_NAME)
            self.put(CONFIG_MAPS, given, "kube-system")

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
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            auto_decompress=False,
            skip_auto_headers=["Accept-Encoding", "User-Agent"],
        )
        self._admission.session = self._aggregation.session = session
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        self.port = self.port or free_port()
        assert self._runner.server is not None
        self._listener = await asyncio.get_running_loop().create_server(
            self._runner.server, "127.0.0.1", self.port, ssl=self._tls
        )

    async def stop(self) -> None:
        """Be gone: open watches break off, connections are refused."""
        self._tell("cut")
        await self._stop_listening()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._admission.session is not None:
            await self._admission.session.close()
        self._runner = self._admission.session = self._aggregation.session = None

    async def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        loop = asyncio.get_running_loop()
        for one in listener.sockets:
            loop.remove_reader(one.fileno())
        # asyncio leaks a connection that was accepted but is not set up when its server closes.
        for _ in range(3):
            await asyncio.sleep(0)
        listener.close()

    # What a test does.

    def fail(self, **fault: Any) -> Fault:
        """Let the next requests fail, see ``Fault``."""
        self.faults.append(Fault(**fault))
        return self.faults[-1]

    def count(self, verb: str, plural: str = "") -> int:
        """How many such requests there were."""
        return sum(one.verb == verb and plural in one.path for one in self.asked)

    async def wait_for(self, verb: str, times: int = 1, plural: str = "") -> None:
        """Until so many such requests have arrived in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.count(verb, plural) >= times)

    async def check_services(self) -> None:
        """Look which APIServices are available, as the real one does every 30 seconds."""
        for key in list(self._kinds.get(API_SERVICES, {})):
            await self._check_service(key)

    async def _check_service(self, key: Key) -> None:
        given = self._found(key)
        if given is None:
            return
        condition = await self._aggregation.available(given, self.time)
        now = self._found(key)
        if now is not None:
            status = {**(now.get("status") or {}), "conditions": [condition]}
            self._keep(key, {**now, "metadata": {**now["metadata"]}, "status": status}, now)

    # What a client asks.

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refused as refused:
            return refused.answer()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        services = list(self._kinds.get(API_SERVICES, {}).values())
        elsewhere = service_of(services, request.path)
        found = find(request.path, self.installed, self.with_status()) if not elsewhere else None
        verb = verb_of(request, found)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        body = None if elsewhere else read_body(request, raw, found)
        self.asked.append(Asked(verb, request.path, dict(request.query), body, token))
        async with self._arrived:
            self._arrived.notify_all()
        if self.tokens and token not in self.tokens and token not in self.access.identities:
            raise Refused(401, "Unauthorized", "Unauthorized")
        who = self.access.who(token)
        await self._suffer(verb, found, token)
        if elsewhere:
            return await self._aggregation.proxy(request, raw, elsewhere, who)
        if found is None:
            return self._discover(request, services)
        check_method(verb, found)
        self.access.check(found.key, verb, found.subresource, who)
        if verb == "watch":
            return await self._watch(request, found.key)
        if verb == "list":
            return self._list(request, found.key)
        return await self._one(request, verb, found, body, who)

    async def _suffer(self, verb: str, found: Found | None, token: str) -> None:
        plural = found.key.resource.plural if found else ""
        fault = next((one for one in self.faults if one.takes(verb, plural, token)), None)
        if fault is None:
            return
        if fault.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(fault.slow)
        if fault.status:
            raise Refused(fault.status, "Test", fault.message, fault.retry_after)

    def _discover(self, request: web.Request, services: list[Object]) -> web.Response:
        if request.path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        aggregated = [
            (one["spec"]["group"], one["spec"]["version"])
            for one in services
            if one["spec"].get("service") is not None
        ]
        answer = None
        if request.method == "GET":
            answer = discovery(
                request.path, self.installed, aggregated, self._has_status, self._short_names
            )
        if answer is None:
            check_own_groups(request.path)
            return web.Response(status=404, text="404 page not found\n")
        return _json(answer)

    def _short_names(self, resource: Resource) -> tuple[str, ...]:
        found = self._defined.get(resource)
        return () if found is None else found.short

    def _list(self, request: web.Request, key: Key) -> web.Response:
        query, resource = request.query, key.resource
        wanted = selection(resource, key.namespace, query)
        limit, token = _number(query.get("limit", "0")), query.get("continue", "")
        since = query.get("resourceVersion", "")
        check_list_options(qualified(resource), query)
        if token and since not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        self._check_future(since)
        exact = query.get("resourceVersionMatch", "Exact" if limit else "") == "Exact"
        if exact and since not in ("", "0", str(self._version)):
            raise self._gone(since)
        # From the watch cache, which is what version 0 asks for, a list comes whole.
        page = self._page(wanted, 0 if since == "0" else limit, token)
        meta: Object = {"resourceVersion": str(page.version)}
        if page.token:
            meta["continue"] = page.token
            if wanted.everything:
                meta["remainingItemCount"] = page.remaining
        return _json(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": api_version(resource),
                "metadata": meta,
                "items": as_listed(resource, page.items),
            }
        )

    def _check_future(self, since: str) -> None:
        if since and _number(since) > self._version:
            large = "Too large resource version"
            message = f"Timeout: {large}: {since}, current: {self._version}"
            causes = (("", f"ResourceVersionTooLarge: {large}"),)
            raise Refused(504, "Timeout", message, 1, causes=causes)

    def _why_unlisted(self, since: str) -> Refused | None:
        """Why a watch cannot begin with a list."""
        try:
            self._check_future(since)
        except Refused as refused:
            return refused
        return None if self.knows_progress else NO_PROGRESS

    async def _watch(self, request: web.Request, key: Key) -> web.StreamResponse:
        query = request.query
        since = query.get("resourceVersion", "")
        watch = Watch(
            selection(key.resource, key.namespace, query),
            query.get("allowWatchBookmarks") in ("true", "1"),
            _number(since or "0"),
        )
        check_watch_options(qualified(key.resource), query, self.streams_lists)
        initial = query.get("sendInitialEvents") in ("true", "1")
        unlisted = self._why_unlisted(since) if initial else None
        since = "" if initial else since
        too_old = since not in ("", "0") and watch.since < self._compacted
        if too_old and self.gone_as_status:
            raise self._gone(since)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if too_old:
            await response.write(line("ERROR", self._gone(since).document()))
            return response
        if unlisted is not None:
            await response.write(line("ERROR", unlisted.document()))
            return response
        for one in self._missed(watch.wanted, since):
            watch.queue.put_nowait(one)
        if initial:
            watch.since = self._version
            if self.breaks_lists:
                self.breaks_lists -= 1
                watch.queue.put_nowait("end")
            elif watch.bookmarks and self.marks_lists:
                watch.queue.put_nowait(self._bookmark(key.resource, {_INITIAL_END: "true"}))
        self._watches.add(watch)
        seconds = float(query.get("timeoutSeconds", "1800"))
        marking = None
        if seconds > _MARKED_BEFORE:
            loop = asyncio.get_running_loop()
            marking = loop.call_later(seconds - _MARKED_BEFORE, self._mark, watch)
        try:
            async with asyncio.timeout(seconds):
                await _send(watch, request, response)
        except TimeoutError:
            pass
        finally:
            if marking is not None:
                marking.cancel()
            self._watches.discard(watch)
        return response

    async def _one(
        self, request: web.Request, verb: str, found: Found, body: Any, who: Identity
    ) -> web.Response:
        key = found.key
        if verb == "get":
            kept = self._found(key)
            if kept is None:
                raise not_found(grouped(key.resource), key.name)
            return _json(kept)
        write = Write(verb, key, found.subresource, body, request.content_type, request.query, who)
        answer, status = await self._written(write)
        response = _json(answer, status)
        for word in write.warnings:
            response.headers.add("Warning", f'299 - "{_quoted(word)}"')
        return response

    async def _written(self, write: Write) -> tuple[Object, int]:
        key, verb = write.key, write.verb
        if key.resource in REVIEWS:
            return self.access.review(key, write.body, write.who), 201
        if verb == "create" and write.subresource == "eviction":
            done = await self._evict(write)
            return done, int(done["code"])
        if verb == "deletecollection":
            gone = await self._delete_all(
                write, selection(key.resource, key.namespace, write.query)
            )
            kind = {"kind": f"{key.resource.kind}List", "apiVersion": api_version(key.resource)}
            return {**kind, "metadata": {}, "items": gone}, 200
        if verb == "delete":
            return await self._delete(write, key), 200
        made = True
        if verb == "create":
            answer = await self._create(write)
        else:
            answer, made = await self._change(write)
        if key.resource == API_SERVICES and not write.subresource and not write.dry_run:
            await self._check_service(Key(key.resource, "", answer["metadata"]["name"]))
        return answer, 201 if made else 200


async def _send(watch: Watch, request: web.Request, response: web.StreamResponse) -> None:
    while True:
        said = await watch.queue.get()
        if isinstance(said, bytes):
            await response.write(said)
        elif said == "end":
            return
        elif said == "silence":
            await asyncio.Event().wait()
        else:
            if said == "half":
                await response.write(_HALF)
            if request.transport is not None:
                request.transport.close()
            return


def _json(given: Object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(given)
    return web.Response(body=body, status=status, content_type="application/json")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise bad_request(f'Invalid value: "{text}": a number is needed')
    return int(text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
