"""Rounds of the descheduler on recorded clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from koord_descheduler.framework.round import (
    DeschedulerProfile,
    DeschedulingRound,
    ProfileRound,
    RoundSettings,
)
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.budgets import Budgets
from koord_descheduler.planner.cluster import KnownPod
from koord_descheduler.planner.move import MoveRefusal
from koord_descheduler.planner.move_memory import MoveMemory
from koord_descheduler.plugin import DeschedulerPlugin

from tests.conformance.vectors import Object
from tests.descheduler.clusters import TestCluster

_KINDS = {
    "namespaces": "Namespace",
    "nodes": "Node",
    "nodeMetrics": "NodeMetric",
    "pdbs": "PodDisruptionBudget",
    "pods": "Pod",
}


class RecordedRound(ProfileRound):
    """A round on recorded objects."""

    def __init__(self, given: Object, filters: Iterable[DeschedulerPlugin] = ()) -> None:
        now = datetime.fromisoformat(given["now"]).timestamp()
        objects = TestCluster()
        for field, kind in _KINDS.items():
            objects.put(*({"kind": kind} | document for document in given.get(field, ())))
        shared = DeschedulingRound(
            objects.cluster, Budgets([]), MoveMemory(0.0), now, RoundSettings(cool_down=0.0)
        )
        self._filters = tuple(filters)
        super().__init__(shared, DeschedulerProfile("recorded", filters=self._filters))

    @property
    def refusals(self) -> Mapping[str, MoveRefusal]:
        """The pods that a plugin asked for and that stayed."""
        return self._round.refusals

    @property
    def asked(self) -> list[str]:
        """The pods that moved, in order."""
        return [move.pod.key for move in self.moves]


class AskedRound(RecordedRound):
    """A round in which each pod that may move counts as moved, wherever that is."""

    def __init__(self, given: Object, filters: Iterable[DeschedulerPlugin] = ()) -> None:
        super().__init__(given, filters)
        self._asked: list[str] = []

    @property
    def asked(self) -> list[str]:
        return self._asked

    def lets_go(self, pod: KnownPod) -> bool:
        """True if no filter keeps the pod."""
        if not self.may_move(pod.view):
            return False
        mark = self.virtual.mark()
        self.virtual.take(pod)
        try:
            return not any(one.pre_eviction_filter(pod.view, self) for one in self._filters)
        finally:
            self.virtual.undo(mark)

    def move(self, pod: KnownPod, reason: str, **_: Any) -> bool:
        if self.lets_go(pod) and pod.view.key not in self._asked:
            self._asked.append(pod.view.key)
            return True
        return False


class Unmovable(DeschedulerPlugin):
    """Recorded pods that the evictor refuses."""

    name = "Unmovable"

    def __init__(self, given: Object) -> None:
        self._keys = frozenset(given["unmovable"])

    def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        return "it is unmovable" if pod.key in self._keys else ""
