"""Taints Nodes for what sources find, and removes these taints."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec
from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import NODES
from koord_kube.protocol.selectors import named
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_service.log_deduplicator import LogDeduplicator

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_taints.core.source import NodeTaints, TaintSource
from koord_manager.node_taints.core.taints import (
    MOST_PERCENT,
    NodeTaint,
    TaintHolds,
    own,
    patch,
)

LOOK_SECONDS = 10.0
_NONE: frozenset[NodeTaint] = frozenset()
_OBJECT = msgspec.json.Decoder(Object)


class NodeTaintController:
    """The one writer of such taints; ``api`` must write only while this manager leads.

    Nothing is looked at before ``known`` returns: then all has been read that sources go by.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        sources: Sequence[TaintSource],
        recorder: EventRecorder,
        *,
        known: Callable[[], Awaitable[object]],
        on_warning: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._sources = sources
        self._recorder = recorder
        self._known = known
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._holds = TaintHolds()
        self._wanted: NodeTaints = {}
        self._reported = LogDeduplicator()
        self.loop = ReconcileLoop(
            "nodetaint", self._write, on_warning=on_warning, backoff=backoff_of(api)
        )

    @property
    def problem(self) -> str:
        """Reason why taints may not be as desired, in a line; "" while there is none."""
        sources = (source.problem for source in self._sources)
        return next((line for line in (*sources, self._waiting) if line), self.loop.problem)

    @property
    def waiting(self) -> Sequence[str]:
        """Nodes whose taints would be too many."""
        return self._holds.waiting

    @property
    def _waiting(self) -> str:
        if not self._holds.waiting:
            return ""
        number = len(self._holds.waiting)
        return f"nodetaint: {number} nodes wait, since {MOST_PERCENT} % of all have taints"

    async def run(self) -> None:
        """For ever."""
        await self._known()
        async with anyio.create_task_group() as group:
            group.start_soon(self.loop.run)
            while True:
                await self.look()
                await anyio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """See what sources ask for, and queue the nodes whose taints are not as desired."""
        nodes = self._nodes.objects
        present = {name: ours for name, node in nodes.items() if (ours := own(node.annotations))}
        asked: dict[str, frozenset[NodeTaint]] = {}
        for source in self._sources:
            for name, taints in (await source.asked(present)).items():
                asked[name] = asked.get(name, _NONE) | taints
        present = {name: ours for name, node in nodes.items() if (ours := own(node.annotations))}
        now = self._monotonic()
        self._wanted = self._holds.desired(nodes.keys(), asked, present, now, self._bars)
        for name in present.keys() | self._wanted.keys():
            if present.get(name, _NONE) != self._wanted.get(name, _NONE):
                self.loop.add(name)
        if self._waiting and self._reported.is_new("waiting"):
            self._on_warning(self._waiting)
        elif not self._waiting:
            self._reported.clear()

    def _bars(self, taint: NodeTaint) -> bool:
        return any(source.bars(taint) for source in self._sources)

    async def _write(self, name: str) -> None:
        """Bring one Node's taints to what is desired, by its newest state."""
        async for page in self._api.pages(NODES, field_selector=named(name)):
            for item in page.items:
                node = _OBJECT.decode(item)
                meta = node["metadata"]
                before = own(meta.get("annotations") or {})
                after = self._wanted.get(name, _NONE)
                change = patch(node, before, after)
                if change is not None:
                    # Another's taint that comes meanwhile must not be lost.
                    version = meta.get("resourceVersion", "")
                    await self._api.patch(NODES, name, change, version=version)
                    self._record(name, before, after)

    def _record(self, name: str, before: frozenset[NodeTaint], after: frozenset[NodeTaint]) -> None:
        for taints, word in ((after - before, "set"), (before - after, "removed")):
            for taint in sorted(taints):
                reasons = (source.reason(name, taint) for source in self._sources)
                why = next(filter(None, reasons), "nothing asks for it")
                self._recorder.record(
                    reference(NODES, name, uid=name),
                    "NodeTaintSet" if word == "set" else "NodeTaintRemoved",
                    f"{taint.key}:{taint.effect} is {word}: {why}",
                    warning=word == "set",
                )
