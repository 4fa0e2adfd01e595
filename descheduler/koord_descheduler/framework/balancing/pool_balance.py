"""A round of a pool: its sources are served one after the other. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from koord_scheduler.state.arrays import Mask

from koord_descheduler.framework.balancing.anomaly import AnomalyDetectors
from koord_descheduler.framework.balancing.pool_loads import Audience, PoolLoads
from koord_descheduler.framework.balancing.pool_settings import PoolSettings
from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import KnownPod

_NO_TARGET = "no underused node stays below its high thresholds with it, and makes loads more even"


class BalanceRules(NamedTuple):
    """The pods that may move, and in what order; the nodes that have to be underused."""

    may_move: Callable[[ObservedPod], bool]
    order: Callable[[ObservedPod], tuple[int, ...]]
    number_of_nodes: int
    most_of_source: int | None = None
    """At most so many moves from one node; ``None``: any number."""


class PoolBalance:
    """The nodes of a pool as a round finds them, and what the round does with them."""

    def __init__(
        self,
        pool: PoolSettings,
        rules: BalanceRules,
        detectors: Mapping[Audience, AnomalyDetectors],
        cluster: ProfileRound,
        loads: PoolLoads,
    ) -> None:
        self._pool = pool
        self._rules = rules
        self._detectors = detectors
        self._cluster = cluster
        self.loads = loads
        self._usages = loads.usages
        self._state_rows = cluster.virtual.rows_of(loads.names)

    def run(self) -> None:
        """Move pods."""
        loads = self.loads
        high, targets = loads.classes()
        sources = {of: self._anomalies(of, rows, targets[of]) for of, rows in high.items()}
        under = np.logical_or.reduce(list(targets.values()))
        numbers = {
            "nodes": len(loads.names),
            "underused": int(under.sum()),
            "overused": {of.word: int(rows.sum()) for of, rows in high.items()},
            "anomalies": {of.word: len(names) for of, names in sources.items()},
        }
        idle = self._idle(int(under.sum()), sum(map(len, sources.values())))
        self._cluster.note(self._pool.name, numbers | ({"nothingToDo": idle} if idle else {}))
        if not idle:
            for audience, names in sources.items():
                for row in self.worst_first(names, audience):
                    self._serve(row, audience, targets[audience])

    def _anomalies(self, audience: Audience, high: Mask, low: Mask) -> set[str]:
        """Nodes whose loads were too high for long enough."""
        names, detectors = np.array(self.loads.names, object), self._detectors[audience]
        for name in names[low].tolist():
            detectors.reset(name)
        return detectors.mark(set(names[high]), set(names[~high]), self._cluster.now)

    def _idle(self, under: int, anomalies: int) -> str:
        if not anomalies:
            return "no node is overused for long enough"
        if under <= (least := self._rules.number_of_nodes):
            return f"{under} nodes are underused; numberOfNodes is {least}"
        return ""

    def worst_first(self, names: Iterable[str], audience: Audience) -> list[int]:
        """The rows of sources, in the order in which they are served."""
        scores = self.loads.scores(audience)
        rows = (self.loads.rows[name] for name in names)
        return sorted(rows, key=lambda row: (-scores[row], row))

    # ---- one source

    def _serve(self, row: int, audience: Audience, targets: Mask) -> None:
        """Move pods until the node is below its high thresholds, or none is left that helps."""
        left, known = self.candidates(row, audience), len(self._cluster.moves)
        while over := self.loads.overages(row, audience):
            if len(self._cluster.moves) - known == self._rules.most_of_source:
                return
            left = self.in_order(left, over)
            for place, pod in enumerate(left):
                if self._move(pod, row, audience, targets):
                    left = left[place + 1 :]
                    break
            else:
                return
        self._detectors[audience].reset(self.loads.names[row])

    def candidates(self, row: int, audience: Audience) -> list[KnownPod]:
        """The pods of a source that may move."""
        return [
            pod
            for pod in self._cluster.pods_on(self.loads.names[row])
            if (audience is Audience.NODE or pod.view.template.is_prod)
            and not pod.view.has_ended
            and self._rules.may_move(pod.view)
        ]

    def in_order(self, pods: Iterable[KnownPod], over: Mapping[str, float]) -> list[KnownPod]:
        """Those that use of what is too much, least important first.

        Of equals the smallest that alone suffices comes first, then the newest.
        """

        def key(pod: KnownPod) -> tuple[object, ...]:
            view = pod.view
            return *self._rules.order(view), -self._fit(pod, over), -view.created, view.key

        return sorted((pod for pod in pods if self._helps(pod, over)), key=key)

    def _helps(self, pod: KnownPod, over: Mapping[str, float]) -> bool:
        usage = self._usages.counted(pod)
        return any(usage.get(name, 0.0) > 0 for name in over)

    def _fit(self, pod: KnownPod, over: Mapping[str, float]) -> float:
        """Koordinator's score of how well a pod's usage fits what is too much."""
        usage = self._usages.counted(pod)
        total = weights = 0.0
        for name, amount in over.items():
            weight = self._pool.weights.get(name, 0)
            if name in usage:
                ratio = usage[name] / amount
                total += weight * (ratio if ratio < 1 else 1 + 1 / ratio)
                weights += weight
        return total / weights if weights else 0.0

    def _move(self, pod: KnownPod, row: int, audience: Audience, targets: Mask) -> bool:
        cluster, loads = self._cluster, self.loads
        usage = loads.vector(self._usages.of_pod(pod))
        is_prod = pod.view.template.is_prod
        accepting = targets & loads.accepting(row, usage, audience, is_prod=is_prod)
        if not accepting.any():
            return cluster.refuse(pod.view, "Target", _NO_TARGET)
        among = cluster.virtual.mask(self._state_rows[accepting])
        mark, known = cluster.virtual.mark(), len(cluster.moves)
        if not cluster.move(
            pod,
            loads.reason(row, audience),
            among=among,
            arithmetic=lambda moved, target: self._arithmetic(moved, target, audience),
        ):
            return False
        made = cluster.moves[known:]
        touched = {name for move in made for name in (move.source, move.target)}
        before = loads.imbalance(audience) if len(made) > 1 else 0.0
        loads.refresh(touched)
        if len(made) > 1 and self._is_worse([move.target for move in made], before, audience):
            cluster.virtual.undo(mark)
            loads.refresh(touched)
            return cluster.refuse(pod.view, "Target", "with all of its gang, loads get worse")
        return True

    def _is_worse(self, touched: Sequence[str], before: float, audience: Audience) -> bool:
        """True if pods that moved together overload a node, or make loads less even."""
        loads = self.loads
        rows = [loads.rows[name] for name in touched]
        overloaded = any(bool(loads.high(of)[rows].any()) for of in Audience)
        return overloaded or loads.imbalance(audience) > before

    def _arithmetic(self, pod: KnownPod, target: str, audience: Audience) -> dict[str, Any]:
        """Usage of a pod, and per cent of both nodes before and after its move."""
        usage, loads = self._usages.of_pod(pod), self.loads
        return {
            "pool": self._pool.name,
            "usage": {name: round(usage.get(name, 0.0)) for name in loads.resources},
            "source": loads.change(pod.view.node, usage, -1, audience),
            "target": loads.change(target, usage, 1, audience),
        }
