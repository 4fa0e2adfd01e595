"""What a manager says of itself: health, standing, and why nodes offer what they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_model.version import VERSION
from koord_service.status import MakePage, Page, Query, QueryError, json_page, metrics_page
from prometheus_client import CollectorRegistry

Document = Mapping[str, Any]

STALLED_SECONDS = 30.0
"""Without a turn of the event loop for so long this manager is not alive."""


@dataclass(frozen=True)
class Known:
    """What pages are made of; all of it is asked from other threads, and only read.

    ``beat`` is when the event loop had its last turn (monotonic). ``not_ready`` is why this
    manager should not be asked, ``troubles`` what else is not as it should be. ``why`` says what
    a node offers and why, ``None`` where this manager does not reckon that at present.
    """

    identity: str
    beat: Callable[[], float]
    leads: Callable[[], bool]
    leader: Callable[[], str]
    not_ready: Callable[[], str]
    troubles: Callable[[], Sequence[str]]
    why: Callable[[str], Document | None]


def probes(known: Known) -> dict[str, MakePage]:
    """The pages that the kubelet asks for."""
    return {
        "/healthz": lambda _: _alive(known),
        "/livez": lambda _: _alive(known),
        "/readyz": lambda _: _ready(known),
    }


def pages(known: Known, registry: CollectorRegistry) -> dict[str, MakePage]:
    """The pages that people and Prometheus ask for."""
    return {
        "/metrics": lambda _: metrics_page(registry),
        "/v1/status": lambda _: json_page(_status(known)),
        "/v1/why": lambda query: json_page(_why(known, query)),
        **probes(known),
    }


def _alive(known: Known) -> Page:
    silent = time.monotonic() - known.beat()
    if silent > STALLED_SECONDS:
        return Page(f"the event loop has had no turn for {silent:.0f} s\n".encode(), status=503)
    return Page(b"ok\n")


def _ready(known: Known) -> Page:
    reason = known.not_ready()
    return Page(f"{reason or 'ok'}\n".encode(), status=503 if reason else 200)


def _status(known: Known) -> Document:
    return {
        "version": VERSION,
        "identity": known.identity,
        "leads": known.leads(),
        "leader": known.leader(),
        "not_ready": known.not_ready(),
        "troubles": list(known.troubles()),
    }


def _why(known: Known, query: Query) -> Document:
    node = query.values.get("node", "")
    if not node:
        raise QueryError('parameter "node" is missing; expected the name of a node')
    found = known.why(node)
    if found is None:
        leader = known.leader() or "nobody"
        raise QueryError(f"this manager does not reckon nodes at present; {leader} leads", 503)
    return found
