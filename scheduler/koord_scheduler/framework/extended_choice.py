"""Choice of a node for a pod about which extenders are asked. No IO.

Between a question and its answer the cluster changes: nodes go, and are filled. So what an extender
lets pass is looked at anew, and where nothing of it is left, the decision begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from koord_scheduler.extenders.calls import CallFailure, Scores
from koord_scheduler.extenders.extender import Extender
from koord_scheduler.extenders.preemption import Preemption
from koord_scheduler.extenders.refusal import ExtenderRefusal
from koord_scheduler.extenders.steps import (
    ExtenderFilterResult,
    Steps,
    choose_candidates,
    filter_nodes,
    prioritize_nodes,
)
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.fit_error import NO_CANDIDATE, preemption_message
from koord_scheduler.framework.preemption import least_harmful
from koord_scheduler.state.arrays import Rows
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_usage import PlacedPod


class ChosenPreemption(NamedTuple):
    """A preemption that extenders agree to, or why there is none.

    ``refusal`` is what they had against the nodes that plugins left.
    """

    refusal: ExtenderRefusal | None
    preemption: Preemption | str


ExtendedResult = int | ExtenderRefusal | CallFailure | ChosenPreemption | None
"""A row for the pod, or what came of it else; ``None``: the decision has to begin anew."""


@dataclass(frozen=True)
class FeasibleNodes:
    """Nodes on which the pod with this ``key`` fits, at any time.

    ``rows`` returns that; ``nominated`` is the node that it waits for, "" if there is none.
    """

    key: str
    scores: ClassScores
    rows: Callable[[], Rows]
    nominated: str
    placed: PlacedPods

    def names(self) -> tuple[str, ...]:
        """The nodes that it fits on."""
        return tuple(map(self.scores.nodes.name, self.rows().tolist()))

    def among(self, names: Iterable[str]) -> Rows:
        """The rows of those nodes that it fits on."""
        rows = [row for row in map(self.scores.nodes.row, names) if row is not None]
        feasible = self.rows()
        return feasible[np.isin(feasible, rows)]

    def best(self, rows: Rows, added: Scores) -> int:
        """The best of some rows that it fits on, with what is added to their scores."""
        rows, nodes = self.scores.first_preferred(rows), self.scores.nodes
        more = np.array([added.get(nodes.name(row), 0) for row in rows.tolist()], np.float64)
        total = self.scores.totals(rows) + more
        return int(rows[(total + nodes.tie_break[rows]).argmax()])

    def tie_break(self, node: str) -> float:
        """Of equal nodes the one with the highest is taken."""
        row = self.scores.nodes.row(node)
        return 0.0 if row is None else float(self.scores.nodes.tie_break[row])

    def pods_on(self, node: str) -> Iterable[PlacedPod] | None:
        """The pods on a node; ``None`` if there is no such node."""
        row = self.scores.nodes.row(node)
        if row is None or not self.scores.nodes.is_node[row]:
            return None
        return self.placed.on(row)

    def has(self, victims: Iterable[PlacedPod]) -> bool:
        """True if all of them are still there."""
        now = ((victim.uid, self.placed.by_key.get(victim.key)) for victim in victims)
        return all(pod is not None and pod.uid == uid for uid, pod in now)


def choose_node(extenders: Sequence[Extender], nodes: FeasibleNodes) -> Steps[ExtendedResult]:
    """Ask about the node that the pod waits for, if it fits there; otherwise about all."""
    if len(nodes.among([nodes.nominated])):
        found = yield from filter_nodes(extenders, nodes.key, (nodes.nominated,))
        if isinstance(found, ExtenderFilterResult) and len(nodes.among(found.passed)):
            return nodes.scores.nodes.row(nodes.nominated)
    names = nodes.names()
    if not names:
        return None
    found = yield from filter_nodes(extenders, nodes.key, names)
    if isinstance(found, CallFailure):
        return found
    if not found.passed:
        return ExtenderRefusal(found.failed)
    added: Scores = {}
    if len(found.passed) > 1:
        added = yield from prioritize_nodes(extenders, nodes.key, found.passed)
    rows = nodes.among(found.passed)
    return nodes.best(rows, added) if len(rows) else None


def choose_preemption(
    extenders: Sequence[Extender],
    nodes: FeasibleNodes,
    candidates: Iterable[Preemption],
    refusal: ExtenderRefusal | None,
) -> Steps[ExtendedResult]:
    """Take the best of the candidates that extenders agree to."""
    found = yield from choose_candidates(extenders, nodes.key, tuple(candidates), nodes.pods_on)
    if isinstance(found, CallFailure):
        return ChosenPreemption(refusal, preemption_message(found.text))
    best = least_harmful(found, nodes.tie_break)
    if best is None:
        return ChosenPreemption(refusal, preemption_message(NO_CANDIDATE))
    return ChosenPreemption(refusal, best) if nodes.has(best.victims) else None
