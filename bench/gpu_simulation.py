"""One run: pods arrive one after the other, each goes to the best node or is gone for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from koord_scheduler.plugins.device_share.gpu_nodes import (
    GpuNodes,
    GpuRequest,
    with_card,
    with_first_cards,
)
from koord_scheduler.plugins.device_share.gpu_scores import GpuPlaces
from koord_scheduler.state.arrays import Amounts, Rows

Placing = Callable[[GpuRequest, GpuNodes], GpuPlaces]
"""Of each row, how good the node is for a pod; a policy with its workload."""


@dataclass
class GpuAnswer:
    """Answer of a policy for equal pods, and the number of placements at that time."""

    places: GpuPlaces
    known: int


@dataclass
class GpuRun:
    """Course of a run: after each pod, the requested and the used part so far, % of all GPUs.

    ``seconds`` are of CPU: one process, one thread.
    """

    arrived: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def used_at(self, percent: int) -> float:
        """The mean while what arrived rounds to this; the simulator's results say it so."""
        near = np.round(self.arrived) == percent
        return float(np.mean(np.array(self.used)[near]))


def run(
    empty: GpuNodes,
    pods: Sequence[GpuRequest],
    placing: Placing,
    learn: Callable[[Sequence[GpuRequest]], Placing] | None = None,
) -> GpuRun:
    """Of equally good nodes the first by name, as the simulator's fork of kube-scheduler has it.

    ``learn`` makes a new policy of the pods so far, each time that their number has doubled.
    """
    nodes = empty.rows(np.arange(len(empty.cpu)))
    capacity, requested, used = float(empty.cards.sum()), 0.0, 0.0
    answers: dict[GpuRequest, GpuAnswer] = {}
    changed: list[int] = []
    found = GpuRun()
    start = time.process_time()
    for number, pod in enumerate(pods):
        if learn and number >= 64 and number & (number - 1) == 0:
            placing, answers = learn(pods[:number]), {}
        places = ask(answers, placing, pod, nodes, changed)
        requested += pod.cards * pod.share
        row = int(places.grade.argmax())
        if places.grade[row] > -np.inf:
            _take(nodes, pod, row, int(places.card[row]))
            changed.append(row)
            used += pod.cards * pod.share
        found.arrived.append(100 * requested / capacity)
        found.used.append(100 * used / capacity)
    found.seconds = time.process_time() - start
    return found


def ask(
    answers: dict[GpuRequest, GpuAnswer],
    placing: Placing,
    pod: GpuRequest,
    nodes: GpuNodes,
    changed: list[int],
) -> GpuPlaces:
    """Of all rows; a policy is asked about those that changed since an equal pod came."""
    answer = answers.get(pod)
    if answer is None:
        # Equal nodes get equal answers: an empty cluster has a dozen different ones.
        table = np.column_stack([nodes.cpu, nodes.memory, nodes.model, nodes.cards])
        _, rows, copies = np.unique(table, axis=0, return_index=True, return_inverse=True)
        some = placing(pod, nodes.rows(rows))
        copies = copies.ravel()
        answers[pod] = GpuAnswer(GpuPlaces(some.grade[copies], some.card[copies]), len(changed))
        return answers[pod].places
    if answer.known < len(changed):
        since: Rows = np.unique(np.array(changed[answer.known :], np.intp))
        some = placing(pod, nodes.rows(since))
        answer.places.grade[since], answer.places.card[since] = some.grade, some.card
        answer.known = len(changed)
    return answer.places


def _take(nodes: GpuNodes, pod: GpuRequest, row: int, card: int) -> None:
    at = np.array([row])
    one = nodes.rows(at)
    after = with_card(pod, one, np.array([card])) if card >= 0 else with_first_cards(pod, one)
    columns: list[tuple[Amounts, Amounts]] = list(zip(nodes[:3], after[:3], strict=True))
    for column, new in columns:
        column[row] = new[0]
