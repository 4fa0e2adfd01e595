"""Says in Events of nodes that they are in quarantine, and that they are not any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from koord_kube.core.events import EventSource, event, reference
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS, NODES

from koord_scheduler.extension_points.api_services import Write
from koord_scheduler.plugins.node_quarantine.columns import QuarantineColumns

_SOURCE = EventSource("koord-scheduler")


class QuarantineEvents:
    """Runs while this scheduler leads; what the leader before has said is not said again."""

    name = "Events of nodes in quarantine"
    every = 1.0

    def __init__(
        self, columns: QuarantineColumns, write: Write, wall: Callable[[], float] = time.time
    ) -> None:
        columns.news.clear()
        self._news = columns.news
        self._write = write
        self._wall = wall

    def due(self) -> Iterable[str]:
        """Return the names of nodes with news."""
        return tuple(self._news)

    async def reconcile(self, key: str) -> None:
        """Write what is new of a node."""
        news = self._news.get(key)
        if news is None:
            return
        line, is_bad = news
        reason = "NodeQuarantined" if is_bad else "NodeReleased"
        # As the kubelet has it, a node's Events are of its name in place of its uid.
        about = reference(NODES, key, "", key)
        made = event(about, reason, f"Node {line}", _SOURCE, self._wall(), warning=is_bad)
        await self._write(Request("POST", EVENTS, "", made["metadata"]["namespace"], body=made))
        if self._news.get(key) == news:
            del self._news[key]
