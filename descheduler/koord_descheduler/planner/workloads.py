"""Desired replicas of workloads, as they were read last. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from koord_descheduler.objects.observed_pod import WorkloadName

_MOST = 1 << 14
"""Workloads that are remembered: some 400 bytes each."""


class Replicas(NamedTuple):
    """Desired replicas of a workload; ``None``: not known, by this ``problem`` or not yet."""

    desired: int | None = None
    problem: str = ""

    @property
    def is_pending(self) -> bool:
        """True if they are yet to be read."""
        return self.desired is None and not self.problem


class Workloads:
    """Replicas of workloads; those that are asked for are read again after ``fresh`` seconds."""

    def __init__(self, fresh: float = 30.0, *, most: int = _MOST) -> None:
        self._fresh = fresh
        self._most = most
        self._known: OrderedDict[WorkloadName, tuple[float, Replicas]] = OrderedDict()
        self._asked: dict[WorkloadName, None] = {}

    def replicas(self, workload: WorkloadName) -> Replicas:
        """The replicas as far as they are known; they are read soon if they are not, or old."""
        if len(self._asked) < self._most:
            self._asked[workload] = None
        known = self._known.get(workload)
        return Replicas() if known is None else known[1]

    def due(self, now: float) -> Iterator[WorkloadName]:
        """The workloads to be read now, in monotonic seconds; each once."""
        asked, self._asked = self._asked, {}
        for workload in asked:
            known = self._known.get(workload)
            if known is None or now - known[0] >= self._fresh:
                yield workload

    def learn(self, workload: WorkloadName, replicas: Replicas, now: float) -> None:
        """The replicas were read."""
        self._known[workload] = now, replicas
        self._known.move_to_end(workload)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
