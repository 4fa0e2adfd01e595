"""The page's paths: its files, the leader's knowledge, and what neighbours say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from koord_service.pages import MakePage, StatusPage
from koord_service.web_pages import web_pages

from koord_manager.cluster_page import web
from koord_manager.cluster_page.core.cluster_document import ClusterSummary, cluster_document
from koord_manager.cluster_page.neighbour import Neighbour, NeighbourAnswer
from koord_manager.cluster_page.recent_answer import RecentAnswer

_CLUSTER_SECONDS = 1.0
_NEIGHBOUR_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterPageSources:
    """The sources of the page; threads call them.

    ``standing`` is who this manager is and who leads, ``summary`` what the leader knows, ``None``
    of another. ``ask`` awaits a question to a neighbour in the event loop.
    """

    standing: Callable[[], Mapping[str, Any]]
    summary: Callable[[], ClusterSummary | None]
    ask: Callable[[Callable[[], Awaitable[NeighbourAnswer]]], NeighbourAnswer]
    neighbours: Mapping[str, Neighbour]


def cluster_pages(known: ClusterPageSources) -> dict[str, MakePage]:
    """The pages by path. Each is made when it is asked for, and then not again for a while."""

    def cluster() -> bytes:
        summary = known.summary()
        document = {} if summary is None else cluster_document(summary)
        return msgspec.json.encode({**known.standing(), **document})

    def answers(neighbour: Neighbour) -> Callable[[], bytes]:
        return lambda: msgspec.json.encode(known.ask(neighbour.ask))

    return {
        **web_pages(web),
        "/v1/cluster": _page(RecentAnswer(cluster, _CLUSTER_SECONDS)),
        **{
            f"/v1/{name}": _page(RecentAnswer(answers(neighbour), _NEIGHBOUR_SECONDS))
            for name, neighbour in known.neighbours.items()
        },
    }


def _page(answer: RecentAnswer) -> MakePage:
    return lambda _: StatusPage(answer.get(), "application/json")
