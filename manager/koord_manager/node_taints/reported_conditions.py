"""Taints for conditions that eviction plugins of nodes report (gate ManagedTaints)."""

from __future__ import annotations

from collections.abc import Callable

import anyio.lowlevel

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_taints.core.source import NodeTaints
from koord_manager.node_taints.core.taints import NodeTaint, reported

GATE = "ManagedTaints"
_NONE = hash(None)
_AT_ONCE = 250
"""Statuses that are looked at in one go, which takes some milliseconds."""


class ReportedConditions:
    """The source; ``status`` is a node's newest NodeMetric status, ``None`` without one."""

    problem = ""

    def __init__(self, nodes: NodeInformer, status: Callable[[str], bytes | None]) -> None:
        self._nodes = nodes
        self._status = status
        self._read: dict[str, int] = {}

    async def asked(self, _present: NodeTaints) -> NodeTaints:
        """The taints of nodes that have reported since the last look."""
        names, asked = list(self._nodes.objects), {}
        for start in range(0, len(names), _AT_ONCE):
            for name in names[start : start + _AT_ONCE]:
                status = self._status(name)
                # The same bytes are the same report: a node that is silent asks for nothing. A
                # hash, as the status itself would stay in memory until the next look.
                if self._read.get(name, _NONE) != hash(status):
                    self._read[name] = hash(status)
                    asked[name] = reported(status)
            await anyio.lowlevel.checkpoint()
        nodes = self._nodes.objects
        self._read = {name: status for name, status in self._read.items() if name in nodes}
        return asked

    def bars(self, _taint: NodeTaint) -> bool:
        """Never."""
        return False

    def reason(self, _node: str, taint: NodeTaint) -> str:
        """An eviction plugin's condition."""
        return "" if "/" in taint.name else "an eviction plugin of the node reports it"
