"""Taints Nodes for conditions that their eviction plugins report, and removes these taints."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.lowlevel
import msgspec
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import NODES
from koord_kube.protocol.selectors import named
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_service.log_deduplicator import LogDeduplicator

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_taints.core.taints import (
    MOST_PERCENT,
    NodeTaint,
    TaintHolds,
    own,
    patch,
    reported,
)

GATE = "ManagedTaints"
_AT_ONCE = 250
"""Statuses that are looked at in one go, which takes some milliseconds."""
_OBJECT = msgspec.json.Decoder(Object)


class NodeTaintController:
    """The controller; ``status`` is a node's newest NodeMetric status, ``None`` without one.

    ``api`` must write only while this manager leads.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        status: Callable[[str], bytes | None],
        *,
        on_warning: Callable[[str], None],
        interval: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._status = status
        self._on_warning = on_warning
        self._interval = interval
        self._monotonic = monotonic
        self._holds = TaintHolds()
        self._read: dict[str, bytes | None] = {}
        self._wanted: dict[str, frozenset[NodeTaint]] = {}
        self._reported = LogDeduplicator()
        self.loop = ReconcileLoop(
            "nodetaint", self._write, on_warning=on_warning, backoff=backoff_of(api)
        )

    @property
    def problem(self) -> str:
        """Reason why taints may not be as desired, in a line; "" while there is none."""
        if self._holds.waiting:
            number = len(self._holds.waiting)
            return f"nodetaint: {number} nodes wait, since {MOST_PERCENT} % of all have taints"
        return self.loop.problem

    async def run(self) -> None:
        """For ever."""
        await self._nodes.wait_synced()
        async with anyio.create_task_group() as group:
            group.start_soon(self.loop.run)
            while True:
                await self.look()
                await anyio.sleep(self._interval)

    async def look(self) -> None:
        """See what nodes report, and queue those whose taints are not as desired."""
        names, asked = list(self._nodes.objects), {}
        for start in range(0, len(names), _AT_ONCE):
            for name in names[start : start + _AT_ONCE]:
                status = self._status(name)
                # The same bytes are the same report: a node that is silent asks for nothing.
                if status is not self._read.get(name):
                    self._read[name] = status
                    asked[name] = reported(status)
            await anyio.lowlevel.checkpoint()
        nodes = self._nodes.objects
        self._read = {name: status for name, status in self._read.items() if name in nodes}
        present = {name: ours for name, node in nodes.items() if (ours := own(node.annotations))}
        wanted = self._holds.desired(nodes.keys(), asked, present, self._monotonic())
        self._wanted = dict(wanted)
        for name in present.keys() | wanted.keys():
            if present.get(name, frozenset()) != wanted.get(name, frozenset()):
                self.loop.add(name)
        if self._holds.waiting and self._reported.is_new("waiting"):
            self._on_warning(self.problem)
        elif not self._holds.waiting:
            self._reported.clear()

    async def _write(self, name: str) -> None:
        """Bring one Node's taints to what is desired, by its newest state."""
        async for page in self._api.pages(NODES, field_selector=named(name)):
            for item in page.items:
                node = _OBJECT.decode(item)
                meta = node["metadata"]
                before = own(meta.get("annotations") or {})
                change = patch(node, before, self._wanted.get(name, frozenset()))
                if change is not None:
                    # Another's taint that comes meanwhile must not be lost.
                    version = meta.get("resourceVersion", "")
                    await self._api.patch(NODES, name, change, version=version)
