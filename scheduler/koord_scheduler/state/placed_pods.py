"""The pods that have a node. No IO."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koord_scheduler.state.arrays import Amounts, Codes, Rows, lengthened
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_usage import PlacedPod, PodUsage
from koord_scheduler.state.usage_table import CountOf, UsageTable

_FEWEST = 8


class PodsByRow(NamedTuple):
    """Pods on some rows: for each pod, on which of these rows (``at``), and its slot.

    They are in the order of the rows, and on each row by importance, the most important first.
    """

    at: Codes
    slots: Codes

    def where(self, chosen: NDArray[np.bool_] | Codes) -> PodsByRow:
        """Some of them."""
        return PodsByRow(self.at[chosen], self.slots[chosen])


class PlacedPods:
    """Placed pods by key and by row; what they use is counted in ``nodes``.

    Each pod has a slot in arrays of ``priority``, ``started`` (infinite: not yet) and ``usage``
    (its code). The slots of a row are kept in order of importance: the higher priority first, then
    what started earlier; pods that are equal in both are in the order in which they came.
    """

    def __init__(self, nodes: ClusterState) -> None:
        self._nodes = nodes
        nodes.pods_on = self.on
        self._placing = nodes.hooks("placed")
        self._unplacing, self._replacing = nodes.hooks("unplaced"), nodes.hooks("replaced")
        self._usages = UsageTable()
        self._slot_of: dict[str, int] = {}
        self._pods: list[PlacedPod | None] = []
        self._free: list[int] = []
        self.priority: Amounts = np.zeros(0)
        self.started: Amounts = np.zeros(0)
        self.usage: Codes = np.zeros(0, np.intp)
        # An array of each row: one node may have as many pods as all others together.
        self._slots: list[array[int]] = []
        self.by_key: Mapping[str, PlacedPod] = _PodsByKey(self._slot_of, self)

    def set(self, pod: PlacedPod) -> None:
        """A pod has a node, or something of it has changed."""
        slot = self._slot_of.get(pod.key)
        if slot is not None:
            before = self.pod(slot)
            if before.node == pod.node and before.usage == pod.usage:
                self._replace(slot, before, pod)
                return
            self.remove(pod.key)
        row = self._nodes.add_pod(pod.node, pod.usage)
        slot = self._slot_of[pod.key] = self._new_slot()
        self.usage[slot] = code = self._usages.add(pod.usage)
        self._pods[slot] = _with_usage(pod, self._usages[code])
        self._put_on(row, slot, pod)
        for placed in self._placing:
            placed(row, pod)

    def remove(self, key: str) -> None:
        """A pod is gone."""
        slot = self._slot_of.pop(key)
        pod = self.pod(slot)
        row = self._nodes.row_of_pods(pod.node)
        self._slots[row].remove(slot)
        for unplaced in self._unplacing:
            unplaced(row, pod)
        self._pods[slot] = None
        self._free.append(slot)
        self._usages.remove(int(self.usage[slot]))
        self._nodes.remove_pod(pod.node, pod.usage)

    def on(self, row: int) -> Sequence[PlacedPod]:
        """The pods on a row's node, the most important first."""
        return [self.pod(slot) for slot in self._slots[row]] if row < len(self._slots) else []

    def pod(self, slot: int) -> PlacedPod:
        """The pod in a slot."""
        pod = self._pods[slot]
        if pod is None:
            raise KeyError(slot)
        return pod

    def slot(self, key: str) -> int | None:
        """The slot of a pod."""
        return self._slot_of.get(key)

    def below(self, priority: int, rows: Rows) -> PodsByRow:
        """The pods on ``rows`` that have a lower priority."""
        self._make_room(len(self._nodes))
        by_row = [self._slots[row] for row in rows.tolist()]
        at = np.repeat(np.arange(len(rows)), [len(slots) for slots in by_row])
        slots = np.frombuffer(b"".join(by_row), np.int64).astype(np.intp, copy=False)
        return PodsByRow(at, slots).where(self.priority[slots] < priority)

    def amounts(self, of: CountOf, slots: Codes) -> Amounts:
        """Return the amounts that ``of`` counts of the pods in these slots."""
        return self._usages.amounts(of, self.usage[slots])

    def usage_of(self, code: int) -> PodUsage:
        """The usage with this code."""
        return self._usages[code]

    def _replace(self, slot: int, before: PlacedPod, pod: PlacedPod) -> None:
        """Take over what changed of a pod that uses what it used before."""
        self._pods[slot] = _with_usage(pod, before.usage)
        row = self._nodes.row_of_pods(pod.node)
        for replaced in self._replacing:
            replaced(row, before, pod)
        if (before.priority, before.started) != (pod.priority, pod.started):
            self._slots[row].remove(slot)
            self._put_on(row, slot, pod)

    def _put_on(self, row: int, slot: int, pod: PlacedPod) -> None:
        """Put a slot behind those of the row that are as important."""
        self.priority[slot] = pod.priority
        self.started[slot] = math.inf if pod.started is None else pod.started
        if row >= len(self._slots):
            self._make_room(len(self._nodes))
        slots, own = self._slots[row], self._importance(slot)
        if not slots or self._importance(slots[-1]) <= own:  # as most pods that come
            slots.append(slot)
        else:
            slots.insert(bisect_right(slots, own, key=self._importance), slot)

    def _importance(self, slot: int) -> tuple[float, float]:
        """Less is more important."""
        return -self.priority.item(slot), self.started.item(slot)

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        slot = len(self._pods)
        self._pods.append(None)
        if slot == len(self.priority):
            length = max(_FEWEST, 2 * slot)
            self.priority = lengthened(self.priority, length, 0)
            self.started = lengthened(self.started, length, 0)
            self.usage = lengthened(self.usage, length, 0)
        return slot

    def _make_room(self, rows: int) -> None:
        self._slots += (array("q") for _ in range(rows - len(self._slots)))


def _with_usage(pod: PlacedPod, usage: PodUsage) -> PlacedPod:
    """With an equal ``usage``, which pods share."""
    return pod if pod.usage is usage else pod._replace(usage=usage)


class _PodsByKey(Mapping[str, PlacedPod]):
    """Placed pods by key, as they are at any time."""

    def __init__(self, slot_of: Mapping[str, int], pods: PlacedPods) -> None:
        self._slot_of = slot_of
        self._placed = pods

    def __getitem__(self, key: str) -> PlacedPod:
        return self._placed.pod(self._slot_of[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._slot_of)

    def __len__(self) -> int:
        return len(self._slot_of)
