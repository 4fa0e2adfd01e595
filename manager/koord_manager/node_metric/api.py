"""The NodeMetrics over HTTPS, as an API server of Kubernetes' aggregation layer serves them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
from aiohttp import web
from koord_kube.protocol.api import ApiError
from koord_model.excerpt import excerpt
from koord_serving.aggregated.core.front_proxy import FrontProxy
from koord_serving.aggregated.core.list_options import (
    ListOptions,
    ObjectForm,
    StatusError,
    form,
    parse,
)
from koord_serving.aggregated.core.request_info import request_info
from koord_serving.aggregated.json_stream import prepare, write
from koord_serving.delegated_auth.authenticator import DelegatedAuthenticator
from koord_serving.delegated_auth.core.users import User

from koord_manager.node_metric.core import documents, schema
from koord_manager.node_metric.core.documents import API_VERSION, GROUP, PLURAL, VERSION
from koord_manager.node_metric.core.follower import Follower, page
from koord_manager.node_metric.core.store import NodeMetricStore

LOOK_SECONDS = 0.2
"""Between two looks of a watch at what has changed; all of it goes out at once."""

BOOKMARK_SECONDS = 60.0
WATCH_SECONDS = 1800
"""Of a watch that sets no timeout."""

_LONGEST_WATCH = 3600
_MOST_REQUESTS = 400
_RETRY_SECONDS = 2
_BASE = f"/apis/{API_VERSION}/{PLURAL}"
_OPEN = {"/healthz", "/livez", "/readyz"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiGroup(Protocol):
    """Another group of the API that is served here: ``versions`` has the preferred one first."""

    name: str
    versions: Sequence[str]

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add what is below /apis/GROUP/VERSION."""
        ...


class NodeMetricsApi:
    """Serves a store, and groups that are added to it.

    ``complete`` says whether nodes have had the time to report to us, since a store that
    is empty for being new would read as a cluster without nodes. ``front_proxy`` is the proxy that
    may authenticate users, ``None`` while unknown.
    """

    def __init__(
        self,
        store: NodeMetricStore,
        leads: Callable[[], bool],
        complete: Callable[[], bool],
        authenticator: DelegatedAuthenticator,
        front_proxy: Callable[[], FrontProxy | None],
        *,
        clock: Callable[[], float] = time.time,
        on_warning: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._groups: list[ApiGroup] = []
        self._on_warning = on_warning
        self._store = store
        self._leads = leads
        self._complete = complete
        self._authenticator = authenticator
        self._front_proxy = front_proxy
        self._clock = clock
        self._busy = 0
        self._ending = False
        self.watches = 0
        """Open at present."""

    def add(self, group: ApiGroup) -> None:
        """Serve another group as well; before ``app``."""
        self._groups.append(group)

    def app(self) -> web.Application:
        """Build the web application."""
        app = web.Application(middlewares=[self._guarded])
        index, v2, v3 = schema.v3_index(), schema.v2(), schema.v3()
        for path, given in (
            ("/apis", msgspec.json.encode(self._group_list())),
            (f"/apis/{GROUP}", msgspec.json.encode(documents.group(GROUP, (VERSION,)))),
            (f"/apis/{API_VERSION}", msgspec.json.encode(documents.resource_list())),
            ("/openapi/v2", v2),
            ("/openapi/v3", msgspec.json.encode(index)),
            (schema.V3_PATH, v3),
        ):
            app.router.add_get(path, _constant(given))
        for group in self._groups:
            document = documents.group(group.name, group.versions)
            app.router.add_get(f"/apis/{group.name}", _constant(msgspec.json.encode(document)))
            group.add_to(app.router)
        app.router.add_get("/livez", _alive)
        app.router.add_get("/healthz", self._healthy)
        app.router.add_get("/readyz", self._healthy)
        app.router.add_get(_BASE, self._all, allow_head=False)
        app.router.add_get(f"{_BASE}/{{name}}", self._one, allow_head=False)
        app.router.add_route("*", _BASE, _read_only)
        app.router.add_route("*", f"{_BASE}/{{name}}", _read_only)
        app.router.add_route("*", "/{tail:.*}", _nothing)
        app.on_shutdown.append(self._end)
        return app

    def _group_list(self) -> documents.Json:
        given = [(group.name, group.versions) for group in self._groups]
        return documents.group_list([(GROUP, (VERSION,)), *given])

    async def _end(self, _app: web.Application) -> None:
        """Watches end as at their timeout, so that clients turn to the next leader."""
        self._ending = True

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._busy += 1
        try:
            if request.path not in _OPEN:
                await self._check(request)
            return await handler(request)
        except StatusError as refused:
            return _refusal(request, refused)
        except ApiError as error:
            # What the API server says is not for unknown callers.
            self._on_warning(str(error))
            message = "the API server cannot be asked who you are"
            unknown = StatusError(503, "ServiceUnavailable", message, retry_after=_RETRY_SECONDS)
            return _refusal(request, unknown)
        finally:
            self._busy -= 1

    async def _check(self, request: web.Request) -> None:
        if self._busy > _MOST_REQUESTS:
            message = f"{_MOST_REQUESTS} requests are under way; try again later"
            raise StatusError(429, "TooManyRequests", message, retry_after=1)
        self._require_leading()
        user = await self._user(request)
        about = request_info(request.method, request.path, request.query)
        refusal = await self._authenticator.refusal(user, about)
        if refusal:
            raise StatusError(403, "Forbidden", refusal)

    def _require_leading(self) -> None:
        if self._leads() and self._store.term:
            return
        message = "this manager does not lead"
        raise StatusError(503, "ServiceUnavailable", message, retry_after=_RETRY_SECONDS)

    async def _user(self, request: web.Request) -> User:
        front = self._front_proxy()
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        if front is not None and front.trusts(certificate):
            user = front.user(request.headers.items())
            if user is not None:
                return user
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        user = None
        if kind.lower() == "bearer" and token.strip():
            user = await self._authenticator.user(token.strip(), request.remote or "nobody")
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    async def _healthy(self, _request: web.Request) -> web.StreamResponse:
        """The leader alone is healthy; the others have nothing to serve."""
        self._require_leading()
        return web.Response(text="ok")

    async def _one(self, request: web.Request) -> web.StreamResponse:
        options, shape = parse(request.query), _form(request)
        kept = self._store.get(request.match_info["name"])
        if kept is None:
            self._require_complete()
            name = request.match_info["name"]
            raise StatusError(404, "NotFound", f'{PLURAL}.{GROUP} "{name}" not found')
        body = documents.shown(kept, shape, full=options.whole_in_rows, now=self._clock())
        return web.Response(body=body, content_type="application/json")

    async def _all(self, request: web.Request) -> web.StreamResponse:
        options, shape = parse(request.query), _form(request)
        self._require_complete()
        if options.watch:
            return await self._watch(
                request, Follower(self._store, options, shape, self._clock), options
            )
        found = page(self._store, options)
        full, now = options.whole_in_rows, self._clock()
        response = await prepare(request)
        await write(response, documents.listed(found, options.names, shape, full=full, now=now))
        return response

    def _require_complete(self) -> None:
        if not self._complete():
            message = "this manager leads since a moment ago; nodes are still reporting to it"
            raise StatusError(503, "ServiceUnavailable", message, retry_after=_RETRY_SECONDS)

    async def _watch(
        self, request: web.Request, follower: Follower, options: ListOptions
    ) -> web.StreamResponse:
        response = await prepare(request)
        loop = asyncio.get_running_loop()
        bookmarked = loop.time()
        ends = bookmarked + min(options.timeout or WATCH_SECONDS, _LONGEST_WATCH)
        self.watches += 1
        try:
            await write(response, follower.first())
            while self._goes_on(follower):
                now = loop.time()
                await write(response, follower.next())
                if options.bookmarks and (now - bookmarked >= BOOKMARK_SECONDS or now >= ends):
                    bookmarked = now
                    await write(response, [follower.bookmark()])
                if now >= ends:
                    break
                await asyncio.sleep(max(0.0, min(LOOK_SECONDS, ends - now)))
        finally:
            self.watches -= 1
        return response

    def _goes_on(self, follower: Follower) -> bool:
        leads = self._leads() and follower.current
        return leads and not (self._ending or follower.ended)


def _form(request: web.Request) -> ObjectForm:
    return form(",".join(request.headers.getall("Accept", [])))


def _constant(given: bytes) -> Handler:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=given, content_type="application/json")

    return answer


async def _alive(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


async def _read_only(request: web.Request) -> web.StreamResponse:
    message = f"{excerpt(request.method)} is not supported: what nodes report is read-only"
    raise StatusError(405, "MethodNotAllowed", message)


async def _nothing(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=404, text="404 page not found\n")


def _refusal(request: web.Request, refused: StatusError) -> web.Response:
    about = request_info(request.method, request.path, {})
    headers = {"Retry-After": str(refused.retry_after)} if refused.retry_after else {}
    return web.json_response(
        documents.status(refused, about.group, about.resource),
        status=refused.status,
        headers=headers,
    )
