"""The nodes of a pool, and which of them count. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from koord_scheduler.plugins.node_quarantine.columns import QuarantineColumns
from koord_scheduler.state.cluster_state import ClusterState

from koord_descheduler.objects.observed_node import ObservedNode
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.tide.core.node_marks import (
    LABEL_POOL,
    LABEL_RESERVE,
    LastMove,
    Side,
    read_last_move,
    side_of,
)
from koord_descheduler.tide.core.pool_spec import TidePool
from koord_descheduler.tide.core.tide_drain import TideDrain

_BAD_TAINTS = ("node.kubernetes.io/", "node.katalyst.kubewharf.io/", "node.koordinator.sh/")
"""Prefixes of taints that Kubernetes' controllers and ours give nodes with problems."""
_CORDON = "node.kubernetes.io/unschedulable"


class TideNode(NamedTuple):
    """A node of a pool; ``unusable`` is why no side has it, in a line."""

    name: str
    side: Side
    unusable: str = ""
    is_reserved: bool = False
    last: LastMove | None = None
    drain: TideDrain | None = None

    @property
    def counts(self) -> bool:
        """True if its side has it: it works, and is not on its way."""
        return not self.unusable and self.drain is None

    def rests_until(self, cool_down: float) -> float:
        """It stays where it is until then, in seconds since the epoch."""
        return self.last.at + cool_down if self.last is not None else 0.0


def tide_nodes(
    cluster: ClusterModel,
    pool: TidePool,
    drains: Iterable[TideDrain],
    *,
    drained: Collection[str],
    pools: Collection[str],
) -> list[TideNode]:
    """The nodes of a pool by name; not those that another one of ``pools`` has.

    ``drained`` are nodes of drains that are not the pool's.
    """
    moves = {drain.node: drain for drain in drains}
    found = []
    for name, node in sorted(cluster.nodes.items()):
        owner = node.labels.get(LABEL_POOL, pool.name)
        if not pool.selects(node.labels) or (owner != pool.name and owner in pools):
            continue
        drain = moves.get(name)
        found.append(
            TideNode(
                name,
                side_of(node.labels, pool),
                _unusable(node, cluster.scheduler.nodes, drain, drained),
                node.labels.get(LABEL_RESERVE) == "true",
                read_last_move(node.node.metadata.annotations or {}),
                drain,
            )
        )
    return found


def left_nodes(cluster: ClusterModel, pool: TidePool) -> Iterator[str]:
    """The nodes that have the pool's label and are not of it, or not any more."""
    for name, node in cluster.nodes.items():
        is_left = pool.is_deleted or not pool.selects(node.labels)
        if is_left and node.labels.get(LABEL_POOL) == pool.name:
            yield name


def _unusable(
    node: ObservedNode, state: ClusterState, drain: TideDrain | None, drained: Collection[str]
) -> str:
    if not node.is_ready:
        return "it is not ready"
    if node.name in drained:
        return "another DrainNode empties it"
    if not node.is_schedulable and drain is None:
        return "it is cordoned"
    for taint in node.node.spec.taints or ():
        if taint.key.startswith(_BAD_TAINTS) and taint.key != _CORDON:
            return f"it has the taint {taint.key}"
    return "its last pods were rejected (NodeQuarantine)" if _rejects(node.name, state) else ""


def _rejects(name: str, state: ClusterState) -> bool:
    columns, row = state.find(QuarantineColumns), state.row(name)
    blocked = columns.blocked.get("") if columns is not None else None
    return blocked is not None and row is not None and bool(blocked[row])


def by_name(nodes: Iterable[TideNode]) -> Mapping[str, TideNode]:
    """The same by name."""
    return {node.name: node for node in nodes}
