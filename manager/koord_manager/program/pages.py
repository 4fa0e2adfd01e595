"""A manager's pages: health, status, and why nodes offer what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord_model.version import VERSION
from koord_service.status import MakePage, Query, QueryError, json_page, metrics_page
from prometheus_client import CollectorRegistry

Document = Mapping[str, Any]


@dataclass(frozen=True)
class PageSources:
    """The sources of pages; other threads call them, and only read.

    ``not_ready`` is why this manager should get no requests, ``problems`` what else is not as it
    should be. ``why`` says what a node offers and why, ``None`` if this manager does not compute
    that at present.
    """

    identity: str
    gates: Mapping[str, bool]
    leads: Callable[[], bool]
    leader: Callable[[], str]
    not_ready: Callable[[], str]
    problems: Callable[[], Sequence[str]]
    why: Mapping[str, Callable[[str], Document | None]]


def pages(known: PageSources, registry: CollectorRegistry) -> dict[str, MakePage]:
    """The pages that people and Prometheus ask for."""
    return {
        "/metrics": lambda _: metrics_page(registry, "koord-manager"),
        "/v1/status": lambda _: json_page(_status(known)),
        "/v1/why": lambda query: json_page(_why(known, query)),
    }


def _status(known: PageSources) -> Document:
    return {
        "version": VERSION,
        "identity": known.identity,
        "leads": known.leads(),
        "leader": known.leader(),
        "feature_gates": known.gates,
        "not_ready": known.not_ready(),
        "problems": list(known.problems()),
    }


def _why(known: PageSources, query: Query) -> Document:
    kinds = [kind for kind in known.why if query.values.get(kind)]
    if len(kinds) != 1:
        expected = " or ".join(f'"{kind}"' for kind in known.why)
        raise QueryError(f"expected one parameter {expected}, with the name of one")
    kind = kinds[0]
    found = known.why[kind](query.values[kind])
    if found is None:
        leader = known.leader() or "nobody"
        raise QueryError(f"this manager does not calculate {kind}s at present; {leader} leads", 503)
    return found
