"""All that the next moves of a pool depend on. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_descheduler.drain.drain_document import OtherDrains
from koord_descheduler.drain.drained_pods import Forbids, forbid_nothing
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.tide.core.node_marks import Side
from koord_descheduler.tide.core.pool_spec import TidePool
from koord_descheduler.tide.core.tide_drain import TideDrain
from koord_descheduler.tide.core.tide_nodes import TideNode

MOST_TRIALS = 8
"""Nodes that are tried in a direction, each time: a trial takes some milliseconds."""


class TideMove(NamedTuple):
    """A node that is to change sides, and why."""

    node: str
    to: Side
    why: str


class PoolState(NamedTuple):
    """A pool at a time, in seconds since the epoch; ``others`` are of all drains under way."""

    cluster: ClusterModel
    pool: TidePool
    nodes: list[TideNode]
    drains: list[TideDrain]
    others: OtherDrains
    now: float
    forbids: Forbids = forbid_nothing

    def on(self, side: Side) -> list[TideNode]:
        """The nodes that count on a side."""
        return [node for node in self.nodes if node.side is side and node.counts]

    def moving(self, to: Side) -> list[str]:
        """The nodes on their way to a side."""
        return [drain.node for drain in self.drains if drain.to is to]

    def reserve(self, side: Side) -> int:
        """The number of nodes that stay on a side."""
        pool, total = self.pool, len(self.nodes)
        if side is Side.ONLINE:
            return pool.reserve_online.of(total, rounds_up=True)
        return pool.reserve_offline.of(total, rounds_up=False)

    def reserved(self, side: Side) -> frozenset[str]:
        """The nodes that stay on a side: those that do already, and work, go before."""
        here = [node for node in self.nodes if node.side is side and node.drain is None]
        here.sort(key=lambda node: (not node.counts, not node.is_reserved, node.name))
        return frozenset(node.name for node in here[: self.reserve(side)])

    def resting(self) -> dict[str, float]:
        """The nodes that stay where they are after a move, and until when."""
        until = {node.name: node.rests_until(self.pool.cool_down) for node in self.nodes}
        return {name: at for name, at in until.items() if at > self.now}
