"""The double as an HTTP server: what a test sets and asks, and how requests are answered."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import API_SERVICES, CONFIG_MAPS, Resource

from tests.support.certificates import Certificates
from tests.support.kube_api.access import Access
from tests.support.kube_api.admission import Trust
from tests.support.kube_api.aggregation import Aggregation, front_proxy_config_map, service_of
from tests.support.kube_api.kinds import (
    REVIEWS,
    USUAL,
    Key,
    Refused,
    api_version,
    bad_request,
    invalid,
)
from tests.support.kube_api.requests import (
    Fault,
    RecordedRequest,
    check_method,
    find,
    list_option_causes,
    refuse_unknown,
    selection,
    verb_of,
)
from tests.support.kube_api.store import Watch, as_listed, line
from tests.support.kube_api.writes import Write, Writes
from tests.support.ports import free_port

STRATEGIC = "application/strategic-merge-patch+json"
_HALF = b'{"type":"MODIFIED","object":{"metadata":{"na'
_INITIAL_END = "k8s.io/initial-events-end"
_MARKED_BEFORE = 2.0
"""Seconds; so long before its end a watch that takes bookmarks gets one."""
_PROXY_NAME = "server"
"""The common name in the certificates that ``certificates`` makes."""
_NO_PROGRESS = (
    "a watch stream was requested by the client but the required storage feature "
    "RequestWatchProgress is disabled"
)


class KubeApi(Writes):
    """Serves at ``url`` while entered; clients see at once what a test does to it.

    ``tokens`` are the valid bearer tokens, with those of ``access``; none: all are.
    ``gone_as_status`` answers 410 by the HTTP status and not by an ERROR event: real servers
    do either. Without ``streams_lists`` it is a server before
    Kubernetes 1.32 or of 1.33, without ``knows_progress`` one before an etcd older than 3.4.31.
    The next ``breaks_lists`` watches that begin with a list end in it; without ``marks_lists``
    nothing says where it ends. ``services`` says where the services that webhooks and
    APIServices name really listen; to those of APIServices the server shows ``front_proxy``.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        tokens: frozenset[str] = frozenset(),
        installed: frozenset[Resource] = USUAL,
        front_proxy: Certificates | None = None,
    ) -> None:
        super().__init__(installed)
        self.tokens = tokens
        self.access = Access()
        self.asked: list[RecordedRequest] = []
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
        """Open watches break off, connections are refused."""
        self._signal("cut")
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
        route = None if elsewhere else find(request.path, self.installed, self.with_status())
        verb = verb_of(request, route)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        body = None if elsewhere else _body(request, raw)
        record = RecordedRequest(verb, request.path, dict(request.query), body, token)
        self.asked.append(record)
        async with self._arrived:
            self._arrived.notify_all()
        if self.tokens and token not in self.tokens and token not in self.access.identities:
            raise Refused(401, "Unauthorized", "Unauthorized")
        await self._suffer(verb, route.key.resource.plural if route else "", token)
        who = self.access.who(token)
        if elsewhere:
            return await self._aggregation.proxy(request, raw, elsewhere, who)
        if route is None:
            return refuse_unknown(request.path)
        check_method(verb, route)
        if verb == "watch":
            return await self._watch(request, route.key)
        if verb == "list":
            return self._list(request, route.key)
        if verb == "get":
            found = self._existing(route.key)
            return _json(_scale(found) if route.subresource == "scale" else found)
        is_strategic = request.content_type == STRATEGIC
        answer, status = await self._written(
            Write(verb, route.key, route.subresource, body, who, is_strategic)
        )
        return _json(answer, status)

    async def _suffer(self, verb: str, plural: str, token: str) -> None:
        fault = next((one for one in self.faults if one.takes(verb, plural, token)), None)
        if fault is None:
            return
        if fault.hang:
            await asyncio.Event().wait()
        await asyncio.sleep(fault.slow)
        if fault.status:
            raise Refused(fault.status, "Test", fault.message, fault.retry_after)

    def _list(self, request: web.Request, key: Key) -> web.Response:
        query, resource = request.query, key.resource
        wanted = selection(key, query)
        limit, token = _number(query.get("limit", "0")), query.get("continue", "")
        since = query.get("resourceVersion", "")
        self._check_options(key, request, watch=False)
        if token and since not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        self._check_future(since)
        exact = query.get("resourceVersionMatch", "Exact" if limit else "") == "Exact"
        if exact and since not in ("", "0", str(self._version)):
            raise self._gone(since)
        # From the watch cache, which is what version 0 asks for, a list comes whole.
        items, version, more = self._page(wanted, 0 if since == "0" else limit, token)
        return _json(
            {
                "kind": f"{resource.kind}List",
                "apiVersion": api_version(resource),
                "metadata": {"resourceVersion": str(version), "continue": more},
                "items": as_listed(resource, items),
            }
        )

    def _check_options(self, key: Key, request: web.Request, *, watch: bool) -> None:
        query, streams = request.query, self.streams_lists
        causes = list_option_causes(query, watch=watch, streams_lists=streams)
        if causes:
            raise invalid(key.resource.kind, "", *causes)

    def _check_future(self, since: str) -> None:
        if since and _number(since) > self._version:
            message = f"Timeout: Too large resource version: {since}, current: {self._version}"
            causes = (("", "ResourceVersionTooLarge: Too large resource version"),)
            raise Refused(504, "Timeout", message, 1, causes)

    def _check_watch(self, since: str, *, initial: bool) -> None:
        """Refuse a watch by an ERROR event: one that cannot begin with a list, or is Gone."""
        if initial:
            self._check_future(since)
            if not self.knows_progress:
                raise Refused(500, "InternalError", _NO_PROGRESS)
        elif since not in ("", "0") and int(since) < self._compacted:
            raise self._gone(since)

    async def _watch(self, request: web.Request, key: Key) -> web.StreamResponse:
        query = request.query
        since = query.get("resourceVersion", "")
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        watch = Watch(selection(key, query), bookmarks, _number(since or "0"))
        self._check_options(key, request, watch=True)
        initial = query.get("sendInitialEvents") in ("true", "1")
        refusal = None
        try:
            self._check_watch(since, initial=initial)
        except Refused as refused:
            if refused.status == 410 and self.gone_as_status:
                raise
            refusal = refused
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if refusal is not None:
            await response.write(line("ERROR", refusal.document()))
            return response
        for one in self._missed(watch.selection, "" if initial else since):
            watch.queue.put_nowait(one)
        if initial:
            self._end_initial(watch)
        self._watches.add(watch)
        await self._follow(watch, request, response, float(query.get("timeoutSeconds", "1800")))
        return response

    def _end_initial(self, watch: Watch) -> None:
        watch.since = self._version
        if self.breaks_lists:
            self.breaks_lists -= 1
            watch.queue.put_nowait("end")
        elif watch.bookmarks and self.marks_lists:
            mark = self._bookmark(watch.selection.resource, {_INITIAL_END: "true"})
            watch.queue.put_nowait(mark)

    async def _follow(
        self, watch: Watch, request: web.Request, response: web.StreamResponse, seconds: float
    ) -> None:
        loop = asyncio.get_running_loop()
        marking = None
        if seconds > _MARKED_BEFORE:
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

    async def _written(self, write: Write) -> tuple[Object, int]:
        verb, key = write.verb, write.key
        if key.resource in REVIEWS:
            return self.access.review(key.resource, write.body), 201
        if write.subresource == "eviction":
            done = await self._evict(write)
            return done, int(done["code"])
        if write.subresource == "binding":
            return self._bind(write), 201
        if verb == "delete":
            return await self._delete(write), 200
        answer = await (self._create(write) if verb == "create" else self._change(write))
        if key.resource == API_SERVICES and not write.subresource:
            await self._check_service(Key(key.resource, "", answer["metadata"]["name"]))
        return answer, 201 if verb == "create" else 200


async def _send(watch: Watch, request: web.Request, response: web.StreamResponse) -> None:
    while True:
        item = await watch.queue.get()
        if isinstance(item, bytes):
            await response.write(item)
        elif item == "end":
            return
        elif item == "silence":
            await asyncio.Event().wait()
        else:
            if item == "half":
                await response.write(_HALF)
            if request.transport is not None:
                request.transport.close()
            return


def _body(request: web.Request, raw: bytes) -> Any:
    """What was sent, if it is of a type that is taken."""
    if request.method == "GET" or (request.method == "DELETE" and not raw):
        return None
    expected = {"application/json"}
    if request.method == "PATCH":
        expected = {"application/merge-patch+json", STRATEGIC}
    if request.method != "DELETE" and request.content_type not in expected:
        known = " or ".join(sorted(expected))
        message = f"the body of the request was in an unknown format - expected {known}"
        raise Refused(415, "UnsupportedMediaType", message)
    try:
        return json.loads(raw)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _json(given: Object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(given)
    return web.Response(body=body, status=status, content_type="application/json")


def _scale(given: Object) -> Object:
    """Of a workload no more than how many pods it is to have."""
    replicas = given.get("spec", {}).get("replicas", 1)
    metadata = {name: given["metadata"][name] for name in ("name", "namespace", "uid")}
    kind = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    return {**kind, "metadata": metadata, "spec": {"replicas": replicas}}


def _number(text: str) -> int:
    if not text.isdecimal():
        raise bad_request(f'Invalid value: "{text}": a number is needed')
    return int(text)
