"""The nodes that come nearest to taking a pod, and what they lack. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from koord_model.quantity import quantity_text

from koord_scheduler.framework.class_scores import PluginReasons
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState

_MOST = 3


class Lack(NamedTuple):
    """A resource that a node has too little of, and how much is lacking, as a quantity."""

    resource: str
    quantity: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A node that almost takes a pod: what it ``lacks``, and ``plugins`` with other reasons.

    ``notes`` say in numbers why plugins reject it for what is used of it.
    """

    node: str
    lacks: tuple[Lack, ...]
    plugins: tuple[str, ...]
    notes: tuple[str, ...] = ()


def nearest_misses(
    nodes: ClusterState, rows: Rows, found: Sequence[PluginReasons], against: Rows
) -> tuple[NearMiss, ...]:
    """At most three of the ``rows`` that are rejected, the nearest first.

    ``against`` says how many plugins reject each row. Nearest are nodes that a single plugin
    rejects, and for lack of resources alone, by what they lack relative to what they have.
    Without such nodes it is the one that the fewest plugins reject.
    """
    lack, only_lacks = _relative_lack(len(rows), found)
    near = np.flatnonzero(only_lacks & (against == 1))
    number = _MOST if len(near) else 1
    near = near if len(near) else np.flatnonzero(against)
    chosen = near[np.lexsort((lack[near], against[near]))[:number]]
    return tuple(_near_miss(nodes.name(int(rows[at])), int(at), found) for at in chosen)


def _relative_lack(length: int, found: Sequence[PluginReasons]) -> tuple[Amounts, Mask]:
    """Return the sum of each row's relative shortages, and if nothing else is wrong with it."""
    lack, only_lacks = np.zeros(length), np.ones(length, np.bool_)
    for reason in (reason for one in found for reason in one.reasons):
        if reason.shortage is None:
            only_lacks &= ~reason.rows
            continue
        _, lacking, has = reason.shortage
        relative = np.where(has > 0, lacking / np.maximum(has, 1.0), np.inf)
        np.add(lack, relative, out=lack, where=reason.rows)
    return lack, only_lacks


def _near_miss(node: str, at: int, found: Sequence[PluginReasons]) -> NearMiss:
    lacks: list[Lack] = []
    others: dict[str, None] = {}
    notes: list[str] = []
    for plugin, reason in ((one.plugin, reason) for one in found for reason in one.reasons):
        if not reason.rows[at]:
            continue
        note = reason.note(at) if reason.note is not None else ""
        if note and note not in notes:
            notes.append(note)
        elif not note and reason.shortage is None:
            others[plugin] = None
        elif not note and reason.shortage is not None:
            resource, lacking, _ = reason.shortage
            lacks.append(Lack(resource, quantity_text(resource, int(lacking[at]))))
    return NearMiss(node, tuple(lacks), tuple(others), tuple(notes))
