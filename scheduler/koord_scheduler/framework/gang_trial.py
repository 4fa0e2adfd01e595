"""A gang group is tried as a whole: each pod takes its room, or nothing of it stays. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.gang_planner import GangCandidate
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.gangs.gang_spec import GangMode
from koord_scheduler.gangs.gangs import Gangs, count_by_gang
from koord_scheduler.plugin import CannotReserve


class MemberPlacer(Protocol):
    """Placement of a single pod beside all that have a node."""

    def choose(self, pod: QueuedPod, candidate: GangCandidate) -> int | None:
        """The best row for a pod; ``None`` if it fits nowhere."""
        ...

    def place(self, pod: QueuedPod, row: int) -> Placement:
        """A pod takes its room on a row's node."""
        ...

    def take_back(self, pod: QueuedPod) -> None:
        """It gives it back."""
        ...


class TrialResult(NamedTuple):
    """The pods that got a room, if they are enough; else how many did, and the first that did not.

    ``why`` says why that one did not. ``has_room`` is false for a trial that failed.
    """

    placements: tuple[Placement, ...]
    fitted: int = 0
    failed: QueuedPod | None = None
    why: str = ""

    @property
    def has_room(self) -> bool:
        """True if the gangs can start."""
        return bool(self.placements)


def try_gang(
    placer: MemberPlacer,
    gangs: Gangs,
    group_id: str,
    pods: Sequence[QueuedPod],
    candidate: GangCandidate,
    explain: Callable[[QueuedPod], str],
) -> TrialResult:
    """Place as many of a group's waiting pods as fit, or none if these are too few.

    Once a strict gang has a pod that does not fit the trial ends, unless enough fit already. Where
    some gangs of a group are enough, one that cannot start leaves its room to the others.
    """
    trial = _Trial(placer, gangs, group_id, pods)
    failed, why, fitted = None, "", 0
    try:
        for pod in pods:
            if trial.is_hopeless(pod) or trial.place(pod, candidate):
                continue
            fitted = max(fitted, len(trial.placements))
            if failed is None and not trial.is_enough():
                failed, why = pod, explain(pod)
            trial.drop_hopeless(pod)
            if trial.is_strict(pod) and not trial.is_enough():
                break
        if trial.is_enough():
            return TrialResult(tuple(trial.placements), len(trial.placements))
        fitted = max(fitted, len(trial.placements))
    except Exception:
        trial.roll_back()
        raise
    trial.roll_back()
    return TrialResult((), fitted, failed, why)


class _Trial:
    def __init__(
        self, placer: MemberPlacer, gangs: Gangs, group_id: str, pods: Sequence[QueuedPod]
    ) -> None:
        self._placer = placer
        self._gangs = gangs
        self._group_id = group_id
        self._placed: Counter[str] = Counter()
        self._left = Counter(count_by_gang(gangs, (pod.key for pod in pods)))
        self._has_quorum = gangs.quorum(group_id) is not None
        self._hopeless: set[str] = set()
        self.placements: list[Placement] = []

    def place(self, pod: QueuedPod, candidate: GangCandidate) -> bool:
        placement, gang = self._place(pod, candidate), self._gang(pod)
        self._left[gang] -= 1
        if placement is None:
            return False
        self.placements.append(placement)
        self._placed[gang] += 1
        return True

    def is_hopeless(self, pod: QueuedPod) -> bool:
        """True if too few pods of its gang fit."""
        return self._gang(pod) in self._hopeless

    def drop_hopeless(self, pod: QueuedPod) -> None:
        """A pod did not fit: if its gang cannot start any more, it takes no room from others."""
        gang = self._gang(pod)
        most = {gang: self._placed[gang] + self._left[gang]}
        if not self._has_quorum or gang not in self._gangs.unsatisfied(self._group_id, most):
            return
        self._hopeless.add(gang)
        for placement in [
            placement for placement in self.placements if self._gang(placement.pod) == gang
        ]:
            self.placements.remove(placement)
            self._placer.take_back(placement.pod)
        self._placed[gang] = 0

    def _gang(self, pod: QueuedPod) -> str:
        gang = self._gangs.gang_of(pod.key)
        return gang.key if gang is not None else ""

    def _place(self, pod: QueuedPod, candidate: GangCandidate) -> Placement | None:
        """On the best row that can have the pod once plugins reserve its room there."""
        while (row := self._placer.choose(pod, candidate)) is not None:
            if row in candidate.refused:
                return None
            try:
                return self._placer.place(pod, row)
            except CannotReserve:
                candidate = candidate._replace(refused=(*candidate.refused, row))
        return None

    def is_enough(self) -> bool:
        return bool(self.placements) and not self._gangs.lacking(self._group_id, self._placed)

    def is_strict(self, pod: QueuedPod) -> bool:
        gang = self._gangs.gang_of(pod.key)
        spec = gang.spec if gang is not None else None
        return spec is None or spec.mode is GangMode.STRICT

    def roll_back(self) -> None:
        while self.placements:
            self._placer.take_back(self.placements.pop().pod)
