"""The models of one node: what has one, what a training step adds, what is forgotten.

UIDs are Koordinator's: a pod's UID, ``__node__``, and ``__node-<item>__`` where the item is
a priority class or "sys", what the node uses beyond its pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from koord_model.priority import PriorityClass

from koord_prediction.amount import ResourceAmount
from koord_prediction.checkpoint import Checkpoint, LearntHistogram
from koord_prediction.histogram import CPU, MEMORY, Histograms, Rows

NODE = "__node__"

RESULTS = {"p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "max": 1.0}
"""The percentiles that people are shown, by Koordinator's names."""

_ROOM = 64
_LONGEST_PAUSE = 86400.0


def item_uid(item: str) -> str:
    """The UID of a part of the node: a priority class ("" for those without), or "sys"."""
    return f"__node-{item}__"


SYS = item_uid("sys")


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod and what it used over the last interval; ``None`` where that was not measured."""

    uid: str
    priority: PriorityClass
    used: ResourceAmount | None


def samples(pods: Iterable[PodUse], node: ResourceAmount | None) -> dict[str, ResourceAmount]:
    """One training step's samples by UID.

    A class without pods used 0. What was not measured is no sample: a class none of whose
    pods was, the node, and sys if either the node or all of its pods were not.
    """
    found: dict[str, ResourceAmount] = {}
    sums = {name: ResourceAmount() for name in PriorityClass}
    all_pods = ResourceAmount()
    present: set[PriorityClass] = set()
    measured: set[PriorityClass] = set()
    for pod in pods:
        present.add(pod.priority)
        if pod.used is None:
            continue
        measured.add(pod.priority)
        found[pod.uid] = pod.used
        sums[pod.priority] += pod.used
        all_pods += pod.used
    unknown = present - measured
    found |= {item_uid(name): sums[name] for name in PriorityClass if name not in unknown}
    if node is not None:
        found[NODE] = node
        if measured or not present:
            found[SYS] = (node - all_pods).at_least_zero()
    return found


class Models:
    """All models; halflives and ``expiration`` in seconds, times seconds since the epoch."""

    def __init__(
        self,
        cpu_halflife: float = 43200.0,
        memory_halflife: float = 86400.0,
        expiration: float = 1800.0,
    ) -> None:
        self._expiration = expiration
        self._cpu = Histograms(CPU, cpu_halflife, _ROOM)
        self._memory = Histograms(MEMORY, memory_halflife, _ROOM)
        self._rows: dict[str, int] = {}
        self._free = list(range(_ROOM))
        self._updated: dict[str, float] = {}

    def uids(self) -> tuple[str, ...]:
        """UIDs of the pods that have a model."""
        return tuple(self._rows)

    def train(self, found: Mapping[str, ResourceAmount], at: float) -> None:
        """Add one sample for each UID; one that is new gets a model."""
        self.add(found.items(), at)

    def add(self, found: Collection[tuple[str, ResourceAmount]], at: float) -> None:
        """Add samples by UID; one that is new gets a model, one may have several samples."""
        rows = np.array([self._row(uid) for uid, _ in found], dtype=np.intp)
        if not len(rows):
            return
        used = np.array([(amount.cpu, amount.memory) for _, amount in found])
        self._cpu.add(rows, used[:, 0], at)
        self._memory.add(rows, used[:, 1], at)
        self._updated |= dict.fromkeys((uid for uid, _ in found), at)

    def forget(self, at: float, gone: Collection[str] = ()) -> tuple[str, ...]:
        """Drop those ``gone`` and all without a sample for the expiration; says which."""
        old = [uid for uid, last in self._updated.items() if at - last > self._expiration]
        gone = {*old, *(uid for uid in gone if uid in self._rows)}
        for uid in gone:
            self.drop(uid)
        return tuple(gone)

    def drop(self, uid: str) -> None:
        """Drop one model, where there is such."""
        if uid in self._rows:
            self._free.append(self._rows.pop(uid))
            del self._updated[uid]

    def percentiles(
        self, cpu: float, memory: float, uids: Iterable[str] | None = None
    ) -> dict[str, ResourceAmount]:
        """A percentile (0.95) of CPU and one of memory, of the UIDs that have a model, or all.

        A model that has no samples says nothing.
        """
        known = [uid for uid in (self._rows if uids is None else uids) if uid in self._rows]
        if not known:
            return {}
        rows = self._rows_of(known)
        cores = self._cpu.percentiles(rows, (cpu,))[:, 0]
        amounts = self._memory.percentiles(rows, (memory,))[:, 0]
        said = ~(np.isnan(cores) | np.isnan(amounts))
        pairs = zip(cores.tolist(), amounts.tolist(), strict=True)
        return {
            uid: ResourceAmount(*pair)
            for uid, pair, ok in zip(known, pairs, said, strict=True)
            if ok
        }

    def results(self) -> dict[str, dict[str, ResourceAmount]]:
        """All models' percentiles by UID and the names of ``RESULTS``.

        A model that has no samples says nothing.
        """
        uids, fractions = list(self._rows), tuple(RESULTS.values())
        rows = self._rows_of(uids)
        cores = self._cpu.percentiles(rows, fractions)
        amounts = self._memory.percentiles(rows, fractions)
        said = ~(np.isnan(cores[:, 0]) | np.isnan(amounts[:, 0]))
        lines = zip(uids, cores.tolist(), amounts.tolist(), said, strict=True)
        return {
            uid: dict(zip(RESULTS, map(ResourceAmount, cpu, memory), strict=True))
            for uid, cpu, memory, ok in lines
            if ok
        }

    def checkpoint(self, uid: str, ahead: float = 0.0) -> Checkpoint:
        """One model, to be kept, with the times of a clock that is so many seconds ahead.

        Raises:
            KeyError: it has no model.
        """
        row = self._rows[uid]
        cpu, memory = (
            LearntHistogram(reference + ahead, weights)
            for reference, weights in (self._cpu.weights(row), self._memory.weights(row))
        )
        return Checkpoint(uid, cpu, memory, self._updated[uid] + ahead)

    def restore(self, checkpoint: Checkpoint, at: float) -> None:
        """Take over a model that was kept; from ``at`` it has one expiration to be trained in.

        Its last sample was ``at`` the latest, and counts as a day old at most: a clock that is
        wrong, now or when it was kept, makes no model worthless.
        """
        cpu, memory = checkpoint.cpu, checkpoint.memory
        last = checkpoint.updated or max(cpu.reference, memory.reference)
        off = at - min(max(at - last, 0.0), _LONGEST_PAUSE) - last
        row = self._row(checkpoint.uid)
        self._cpu.put(row, cpu.reference + off, cpu.weights)
        self._memory.put(row, memory.reference + off, memory.weights)
        self._updated[checkpoint.uid] = at

    def _rows_of(self, uids: list[str]) -> Rows:
        return np.array([self._rows[uid] for uid in uids], dtype=np.intp)

    def _row(self, uid: str) -> int:
        row = self._rows.get(uid)
        if row is not None:
            return row
        if not self._free:
            room = len(self._rows)
            self._cpu.grow(2 * room)
            self._memory.grow(2 * room)
            self._free = list(range(room, 2 * room))
        row = self._rows[uid] = self._free.pop()
        self._cpu.clear(row)
        self._memory.clear(row)
        return row
