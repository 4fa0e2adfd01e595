"""Usage and offers of all nodes at present, in parts of their capacity, for people. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koord_manager.noderesource.core.calculation import NodeTables
from koord_manager.noderesource.core.mid_resource import UNKNOWN
from koord_manager.noderesource.core.smoothing import NONE

NOT_KNOWN = -1
_MOST = 999
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """Columns of the nodes of ``names``, and sums over all of them.

    ``percents`` are of the node's capacity, ``NOT_KNOWN`` without a recent report or
    nothing is offered: of ``cpu`` and ``memory`` used, of CPU ``batch_offered`` and
    ``batch_used`` by batch pods. ``capacity`` is millicores and MiB; ``sums`` have ``cpu`` and
    ``memory`` in the same units.
    """

    names: list[str]
    capacity: Mapping[str, list[int]]
    percents: Mapping[str, list[int]]
    sums: Mapping[str, Mapping[str, int]]


def cluster_usage(names: Sequence[str], tables: NodeTables, now: float) -> ClusterUsage:
    """Read the rows of nodes that are there; ``now`` is in seconds since the epoch."""
    rows = np.flatnonzero(tables.states["there"])
    nodes, accounts, states = (
        table[rows] for table in (tables.nodes, tables.accounts, tables.states)
    )
    capacity = nodes["capacity"]
    is_fresh = states["reported"] & (now - states["at"] <= tables.strategies["degrade"][rows])
    used = np.where(accounts["node_used"] == UNKNOWN, NOT_KNOWN, accounts["node_used"])
    used = np.where(is_fresh[:, None], used, NOT_KNOWN)
    batch_used = np.where(is_fresh[:, None], accounts["batch_used"], NOT_KNOWN)
    # CPU is offered in units of the reference's, of which a fast node has more than it has CPUs.
    offered = nodes["offered"][:, 0].astype(np.float64)
    offered[:, 0] /= np.maximum(nodes["ratio"], 1.0)
    offered = np.where(nodes["offered"][:, 0] == NONE, NOT_KNOWN, offered)
    columns = {"capacity": capacity, "used": used, "batch_offered": offered}
    return ClusterUsage(
        [names[row] for row in rows.tolist()],
        {"cpu": capacity[:, 0].tolist(), "memory": (capacity[:, 1] // _MEBIBYTE).tolist()},
        {
            "cpu": _percents(used[:, 0], capacity[:, 0]),
            "memory": _percents(used[:, 1], capacity[:, 1]),
            "batch_offered": _percents(offered[:, 0], capacity[:, 0]),
            "batch_used": _percents(batch_used[:, 0], capacity[:, 0]),
        },
        {name: _sums(column) for name, column in (*columns.items(), ("batch_used", batch_used))},
    )


def _percents(amounts: NDArray[Any], capacity: NDArray[Any]) -> list[int]:
    known = (amounts != NOT_KNOWN) & (capacity > 0)
    parts = np.divide(amounts, capacity, out=np.zeros(len(amounts)), where=known)
    percents = np.where(known, np.clip(np.rint(parts * 100), 0, _MOST), NOT_KNOWN)
    found: list[int] = percents.astype(np.int64).tolist()
    return found


def _sums(amounts: NDArray[Any]) -> dict[str, int]:
    cpu, memory = np.where(amounts == NOT_KNOWN, 0, amounts).sum(axis=0).tolist()
    return {"cpu": int(cpu), "memory": int(memory) // _MEBIBYTE}
