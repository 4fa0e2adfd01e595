"""A client of an API server over HTTP and JSON; ``connect`` makes one."""

from __future__ import annotations

import copy
import random
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
import msgspec
from koord_model.version import VERSION
from koord_service.http_bodies import read_body
from multidict import CIMultiDict
from yarl import URL

from koord_kube.core.token_bucket import TokenBucket
from koord_kube.credentials import Anonymous, Credentials
from koord_kube.failures import reason_of
from koord_kube.protocol.api import (
    PAGE,
    ApiError,
    GoneError,
    ListPage,
    NotLeadingError,
    Object,
    WatchEvent,
)
from koord_kube.protocol.lines import Lines
from koord_kube.protocol.request import ITEMS, OBJECT, Request
from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector
from koord_kube.shared_backoff import SharedBackoff

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_EVENT = b'{"type":'
_NOT_OLDER = "NotOlderThan"
_BEGINNINGS = 3  # of one list; the server keeps a state for five minutes or more
_RANDOM = random.SystemRandom()


@dataclass(frozen=True)
class Cluster:
    """Location of the API server, and the credentials of both sides.

    ``context`` is what the server is verified by; ``None`` over plain HTTP.
    ``server_name`` is the name in its certificate where it is not the URL's. ``new_context``
    makes another context, for connections that offer another protocol. ``headers`` go with each
    request: as whom it is made, where that is not whose the credentials are. ``backoff`` is shared
    by all that the program asks of this server.
    """

    url: str
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    context: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None
    new_context: Callable[[], ssl.SSLContext] | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    backoff: SharedBackoff = field(default_factory=SharedBackoff, repr=False, compare=False)


@dataclass(frozen=True)
class Limits:
    """``qps`` and ``burst`` are of writes, ``connections`` bounds those that are open.

    The rest is in seconds. With a ``qps`` of 0 writes are not slowed down.

    An answer may take ``answer``, a list ``listing``, which is what an API server gives itself:
    many objects take long to collect, to send and to read, and who gives up begins anew. A list
    by a watch has to begin within it, and to go on each ``answer``. An answer about one object
    may have ``object_bytes``, far more than etcd keeps of one, a list ``list_bytes``.

    A watch is ended by the server after ``watch`` to twice as long, and given up ``grace``
    later where it does not: then the connection is dead.

    While the server is away, somebody tries at least each ``probe``.
    """

    qps: float = 20.0
    burst: int = 30
    connections: int = 100
    answer: float = 10.0
    listing: float = 60.0
    watch: float = 300.0
    grace: float = 15.0
    probe: float = 2.0
    object_bytes: int = 16 << 20
    list_bytes: int = 1 << 30


class Client:
    """The ``Api`` of a cluster; to be closed, or entered."""

    def __init__(
        self,
        cluster: Cluster,
        limits: Limits | None = None,
        *,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self.cluster = cluster
        self._limits = limits or Limits()
        self._chance = chance
        limits = self._limits
        self._writes = TokenBucket(limits.qps, limits.burst) if limits.qps else None
        self._leads: Callable[[], bool] = _always
        self._sessions = _Sessions(cluster, limits.connections)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def backoff(self) -> SharedBackoff:
        """Backoff shared by all clients of the cluster."""
        return self.cluster.backoff

    async def close(self) -> None:
        """Close all connections; the next request opens a new one."""
        await self._sessions.close()

    def separate(self, connections: int) -> Client:
        """The same cluster, by connections of its own, so many at most; to be closed by itself.

        What it asks waits for nothing that this one asks, nor the other way round.
        """
        limits = replace(self._limits, connections=connections)
        return Client(self.cluster, limits, chance=self._chance)

    def fenced(self, leads: Callable[[], bool], writes: TokenBucket | None = None) -> Client:
        """The same, on the same connections, but only who leads writes.

        A write raises ``NotLeadingError`` unless ``leads`` returns true at that moment. They are
        slowed down by ``writes`` alone, which others may share. One that waits for its turn is
        checked again when its turn has come, so that no write from the time of leading is
        sent afterwards.
        """
        made = copy.copy(self)
        made._leads, made._writes = leads, writes  # noqa: SLF001 - it is of this class
        return made

    async def get(
        self, resource: Resource, name: str, namespace: str = "", subresource: str = ""
    ) -> Object:
        request = Request("GET", resource, name, namespace, subresource, is_of_one=True)
        return request.decode(OBJECT, await self._answer(request))

    async def read(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        subresource: str,
        query: Mapping[str, str],
    ) -> bytes:
        """The unparsed answer of a subresource; of "proxy/…" what the pod serves there."""
        return await self._answer(
            Request("GET", resource, name, namespace, subresource, query=query, is_of_one=True)
        )

    async def encoded_list(
        self, resource: Resource, field_selector: ApiSelector, accept: str, most: int
    ) -> bytes:
        """The unparsed answer with all objects in another media type, in at most so many bytes.

        It is what the API server's cache has: nothing is read from etcd.
        """
        query = _selected(field_selector, EVERYTHING) | {"resourceVersion": "0"}
        request = Request("GET", resource, query=query, accept=accept)
        return await self._answer(request, self._limits.listing, most)

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        field_selector: ApiSelector = EVERYTHING,
        label_selector: ApiSelector = EVERYTHING,
        *,
        version: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[ListPage, None]:
        limits = self._limits
        most = min(limits.list_bytes, limit * limits.object_bytes)
        selected = _selected(field_selector, label_selector)
        first, more, begun = _first_page(version, limit), "", 0
        while True:
            query = selected | ({"limit": str(limit), "continue": more} if more else first)
            request = Request("GET", resource, "", namespace, query=query)
            begun += not more
            try:
                body = await self._answer(request, limits.listing, most)
                found = request.decode(ITEMS, body)
            except GoneError:
                if not more or begun >= _BEGINNINGS:
                    raise
                more = ""
                continue
            items = [bytes(item) for item in found.items or []]
            yield ListPage(items, found.metadata.version, first=not more)
            more = found.metadata.more
            if not more:
                return

    async def watch(
        self,
        resource: Resource,
        version: str,
        namespace: str = "",
        field_selector: ApiSelector = EVERYTHING,
        label_selector: ApiSelector = EVERYTHING,
        *,
        listing: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        seconds = self._limits.watch * (1 + self._chance())
        query = _selected(field_selector, label_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        if version:
            query["resourceVersion"] = version
        if listing:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": _NOT_OLDER}
        request = Request("GET", resource, "", namespace, query=query)
        lines = Lines()
        try:
            with anyio.fail_after(self._limits.listing if listing else self._limits.answer):
                response = await self._send(request, seconds + self._limits.grace)
            async with response:
                if not listing:
                    opened = {"metadata": {"resourceVersion": version}}
                    yield WatchEvent("BOOKMARK", msgspec.json.encode(opened))
                pieces = response.content.iter_any()
                # A server that does not support the option does not mark the end of a list.
                while piece := await self._piece(pieces, listing=listing):
                    self.backoff.succeeded()
                    for line in lines.feed(piece):
                        change = request.watch_event(line)
                        listing = listing and not change.ends_list
                        yield change
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiError(f"{request}: {reason_of(error)}") from None
        if lines.rest:
            raise ApiError(f"{request}: the watch broke off in the middle of an event")

    async def create(
        self,
        resource: Resource,
        given: Object,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> Object:
        return await self._write(Request("POST", resource, name, namespace, subresource, given))

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
        *,
        version: str = "",
    ) -> Object:
        if version:
            meta = {**(change.get("metadata") or {}), "resourceVersion": version}
            change = {**change, "metadata": meta}
        return await self._write(Request("PATCH", resource, name, namespace, subresource, change))

    async def apply(
        self,
        resource: Resource,
        name: str,
        given: Mapping[str, Any],
        manager: str,
        subresource: str = "",
    ) -> Object:
        """Server-side apply: these fields become ours (``manager``), those of others stay.

        What this manager applied before and leaves out now is removed. A field that another has
        set otherwise is taken over.
        """
        query = {"fieldManager": manager, "force": "true"}
        request = Request(
            "PATCH", resource, name, "", subresource, given, query=query, is_apply=True
        )
        return await self._write(request)

    async def replace(
        self,
        resource: Resource,
        name: str,
        given: Object,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        return await self._write(Request("PUT", resource, name, namespace, subresource, given))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
    ) -> None:
        conditions = {"uid": uid, "resourceVersion": version}
        preconditions = {field: value for field, value in conditions.items() if value}
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            body["preconditions"] = preconditions
        await self._write(Request("DELETE", resource, name, namespace, body=body))

    async def _piece(self, pieces: AsyncIterator[bytes], *, listing: bool) -> bytes:
        """The next one, empty at the end. Only a list has to continue within a time."""
        if not listing:
            return await anext(pieces, b"")
        with anyio.fail_after(self._limits.answer):
            return await anext(pieces, b"")

    async def write(self, request: Request) -> bytes:
        """Send a write as it is, and return the body of its answer."""
        self._require_leading(request)
        if self._writes is not None:
            await anyio.sleep(self._writes.take(time.monotonic()))
            self._require_leading(request)
        return await self._answer(request)

    async def _write(self, request: Request) -> Object:
        return request.written_object(await self.write(request))

    def _require_leading(self, request: Request) -> None:
        if not self._leads():
            raise NotLeadingError(f"{request}: not written, this program does not lead")

    async def _answer(self, request: Request, seconds: float = 0.0, most: int = 0) -> bytes:
        try:
            async with await self._send(request, seconds or self._limits.answer) as response:
                return await _body(response, most or self._limits.object_bytes, lists=bool(most))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiError(f"{request}: {reason_of(error)}") from None

    async def _send(self, request: Request, seconds: float) -> aiohttp.ClientResponse:
        """A successful answer, not read yet; sends twice if the token is refused."""
        header = await self.cluster.credentials.header()
        response = await self._send_once(request, header, seconds)
        if response.status == 401:
            response.release()
            header = await self.cluster.credentials.header(anew=True)
            response = await self._send_once(request, header, seconds)
        if response.status < 300:
            self.backoff.succeeded()
            return response
        async with response:
            body = await _body(response, self._limits.object_bytes)
        secret = header.rpartition(" ")[2]
        raise request.error_from(response.status, response.headers, body, secret)

    async def _send_once(
        self, request: Request, header: str, seconds: float
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(self.cluster.headers)
        headers.update({"Accept": request.accept, "User-Agent": f"pykoord/{VERSION}"})
        if header:
            headers["Authorization"] = header
        data = request.payload or None
        if data is not None:
            headers["Content-Type"] = content_type(request)
        return await self._sessions.current().request(
            request.method,
            # As it is: the library would decode what is encoded.
            URL(self.cluster.url + request.target, encoded=True),
            data=data,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=self._limits.answer),
            allow_redirects=False,
            server_hostname=self.cluster.server_name,
            proxy=self.cluster.proxy,
        )


class _Sessions:
    """The connections of a client and of its fenced copies."""

    def __init__(self, cluster: Cluster, limit: int) -> None:
        self._cluster = cluster
        self._limit = limit
        self._opened: aiohttp.ClientSession | None = None

    def current(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._cluster.context or True, socket_factory=_socket, limit=self._limit
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=256 * 1024,
            )
        return self._opened

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


async def _body(response: aiohttp.ClientResponse, most: int, *, lists: bool = False) -> bytes:
    """The whole of it.

    Raises:
        ValueError: it is longer than ``most``, or events without an end instead of a list.
    """
    return await read_body(_no_events(response) if lists else response.content.iter_any(), most)


async def _no_events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    begun = False
    async for piece in response.content.iter_any():
        if not begun and piece.startswith(_EVENT):
            raise ValueError("the answer is a watch's, not a list")
        begun = True
        yield piece


def content_type(request: Request) -> str:
    """Return the media type of a request's body."""
    if request.method != "PATCH":
        return "application/json"
    if request.is_apply:
        return _APPLY
    return _STRATEGIC if request.is_strategic else _MERGE


def _always() -> bool:
    return True


def _first_page(version: str, limit: int) -> dict[str, str]:
    """The first query of a list. With a version it is not paged: pages would come from etcd."""
    if not version:
        return {"limit": str(limit)}
    query = {"resourceVersion": version, "resourceVersionMatch": _NOT_OLDER}
    # Without a cache a server lists any state in pages; with one it ignores the limit.
    return query | ({"limit": str(limit)} if version == "0" else {})


def _selected(field_selector: ApiSelector, label_selector: ApiSelector) -> dict[str, str]:
    query = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: value for name, value in query.items() if value}


def _socket(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(*address[:3])
    notice_lost_peer(made)
    return made


def notice_lost_peer(made: socket.socket) -> None:
    """Let a socket notice within half a minute that the other end is gone."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
