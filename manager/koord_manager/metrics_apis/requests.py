"""Requests to the metrics APIs: their options, and answers that the groups share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import msgspec
from aiohttp import web
from koord_model.label_selector import LabelSelector
from koord_serving.aggregated.core.list_options import ListOptions, StatusError, parse

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Options of a list; that objects without labels are selected by none is not so here."""
    options = parse(query)
    if options.watch:
        message = "watch is not supported: usage changes with each report"
        raise StatusError(405, "MethodNotAllowed", message)
    return replace(options, names=replace(options.names, none=False))


def selects(options: ListOptions, name: str, labels: Mapping[str, str]) -> bool:
    """True if a list has an object of this name and labels."""
    return options.names.include(name) and LabelSelector(options.labels).matches(labels)


def constant(document: object) -> Handler:
    """Return a handler that always answers with a document."""
    body = msgspec.json.encode(document)

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return answer


def add_read_only(router: web.UrlDispatcher, path: str, handler: Handler) -> None:
    """Add a path that can be read; all else is refused in a line."""
    router.add_get(path, handler, allow_head=False)
    router.add_route("*", path, _read_only)


async def _read_only(_request: web.Request) -> web.StreamResponse:
    raise StatusError(405, "MethodNotAllowed", "what nodes report is read-only")
