"""Koordinator's services engine: pages about nodes, and those of plugins, on the leader alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from koord_service.status import MakePage, Query, StatusPage, json_page

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import Node
from koord_scheduler.plugin import Service
from koord_scheduler.program.node_info import node_info

_BASE = "/apis/v1"


@dataclass(frozen=True)
class ServiceSources:
    """The sources of services; ``look_up`` calls a function in the event loop, for other threads.

    ``leads`` says whether this replica leads; ``nodes`` are those that the API has.
    """

    scheduler: Scheduler
    nodes: Callable[[], Mapping[str, Node]]
    leads: Callable[[], bool]
    look_up: Callable[[Callable[[], StatusPage]], StatusPage]


def service_pages(known: ServiceSources) -> dict[str, MakePage]:
    """All services, by path; the list of them is one itself."""
    services: dict[str, Service] = {
        f"{_BASE}/nodes/:nodeName": lambda given: _node(known, given["nodeName"]),
        f"{_BASE}/__services__": lambda _: {"GET": sorted(services)},
        **_of_plugins(known.scheduler),
    }
    return {path: partial(_page, known, service) for path, service in services.items()}


def _of_plugins(scheduler: Scheduler) -> dict[str, Service]:
    found: dict[str, Mapping[str, Service]] = {}
    for profile in scheduler.profiles.values():
        for plugin in profile.plugins:
            if plugin.plugin.name not in found:
                found[plugin.plugin.name] = plugin.plugin.services(scheduler.nodes)
    return {
        f"{_BASE}/plugins/{name}{path}": service
        for name, services in found.items()
        for path, service in services.items()
    }


def _page(known: ServiceSources, service: Service, query: Query) -> StatusPage:
    def make() -> StatusPage:
        if not known.leads():
            return json_page({"message": "the instance is not leader"}, 503)
        try:
            return json_page(service(query.values))
        except LookupError as error:
            return json_page({"message": " ".join(map(str, error.args))}, 404)

    return known.look_up(make)


def _node(known: ServiceSources, name: str) -> Mapping[str, Any]:
    node = known.nodes().get(name)
    if node is None:
        raise LookupError(f"cannot find node {name}")
    return node_info(known.scheduler, node)
