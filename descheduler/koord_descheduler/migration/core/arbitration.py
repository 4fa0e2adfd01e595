"""Jobs that may begin: all that wait, in order, each by the rules of who may move. No IO."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.objects.eviction_order import eviction_order
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.planner.disruptions import Disruptions
from koord_descheduler.planner.gang_group import PlacedGang, gang_group
from koord_descheduler.planner.protection import belongs_to_node
from koord_descheduler.plugins.migration_controller.who_may_move import (
    MovementRules,
    lasting_obstacle,
    passing_obstacle,
    workload_state,
)


class WaitingJob(NamedTuple):
    """A job that waits, and its pod; ``together``: so many jobs of its set have to begin."""

    job: MigrationJob
    pod: ObservedPod
    together: int = 1


class ArbitrationResult(NamedTuple):
    """A job that begins, or why it never will, or why it waits."""

    waiting: WaitingJob
    failed: str = ""
    waits: str = ""

    @property
    def begins(self) -> bool:
        """True if nothing holds it."""
        return not (self.failed or self.waits)


def in_order(waiting: Iterable[WaitingJob], moving: Iterable[ObservedPod]) -> list[WaitingJob]:
    """Koordinator's order, by sorts in turn: the last one counts most.

    Newest jobs; cheapest pods, of equals the newest; pods of one Job beside each other; Jobs with
    more moving pods before others.
    """
    jobs = sorted(waiting, key=lambda candidate: int(candidate.job.created), reverse=True)
    jobs.sort(key=lambda candidate: (*eviction_order(candidate.pod), -candidate.pod.created))
    first: dict[str, int] = {}
    for place, candidate in enumerate(jobs):
        first.setdefault(_job_of(candidate.pod) or candidate.job.uid, place)
    jobs.sort(key=lambda candidate: first[_job_of(candidate.pod) or candidate.job.uid])
    numbers = Counter(filter(None, map(_job_of, moving)))
    jobs.sort(key=lambda candidate: numbers[_job_of(candidate.pod)], reverse=True)
    return jobs


class Arbitration:
    """One arbitration, while pods are ``moving``, of which ``evicting`` are not gone yet."""

    def __init__(
        self,
        cluster: ClusterModel,
        rules: MovementRules,
        moving: Sequence[ObservedPod],
        evicting: Iterable[ObservedPod],
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._moving = list(moving)
        self._disruptions = Disruptions(cluster.scheduler.budgets)
        for pod in evicting:
            self._disruptions.charge(pod)

    def decide(self, waiting: Iterable[WaitingJob]) -> list[ArbitrationResult]:
        """Say of each job if it begins; those before it in order that do count as moving."""
        jobs = in_order(waiting, self._moving)
        by_key = {candidate.pod.key: candidate for candidate in jobs}
        sets: dict[str, list[WaitingJob]] = defaultdict(list)
        for candidate in jobs:
            if candidate.job.move_set is not None:
                sets[candidate.job.move_set.name].append(candidate)
        found: dict[str, ArbitrationResult] = {}
        for candidate in jobs:
            if candidate.job.name not in found:
                move_set = candidate.job.move_set
                if move_set is not None:
                    results = self._set(sets[move_set.name])
                else:
                    results = self._together(candidate, by_key)
                for result in results:
                    found[result.waiting.job.name] = result
        return list(found.values())

    def _together(
        self, candidate: WaitingJob, by_key: dict[str, WaitingJob]
    ) -> Iterator[ArbitrationResult]:
        """A job, and those of its pod's gang: all begin, or none."""
        gang = gang_group(self._cluster, candidate.pod.key)
        if not gang.others or candidate.job.is_ordered or self._rules.may_bypass(candidate.pod):
            yield self._judge(candidate, PlacedGang())
            return
        group = [candidate, *(by_key[key] for key in sorted(gang.keys) if key in by_key)]
        moving = {pod.key for pod in self._moving}
        missing = sorted(gang.keys - by_key.keys() - moving)
        if missing:
            why = f"its gang moves as a whole, and {', '.join(missing)} has no job"
            yield from (ArbitrationResult(member, waits=why) for member in group)
            return
        yield from self._all_or_none(group, gang, "gang")

    def _set(self, group: Sequence[WaitingJob]) -> Iterator[ArbitrationResult]:
        """The jobs of a set of moves that wait: all begin, or none."""
        if len(group) < group[0].together:
            why = f"its set moves as a whole, and {group[0].together - len(group)} cannot begin"
            yield from (ArbitrationResult(member, waits=why) for member in group)
            return
        yield from self._all_or_none(group, PlacedGang(), "set")

    def _all_or_none(
        self, group: Sequence[WaitingJob], gang: PlacedGang, kind: str
    ) -> Iterator[ArbitrationResult]:
        mark = len(self._moving)
        results = [self._judge(member, gang) for member in group]
        held = next((result for result in results if not result.begins), None)
        if held is None:
            yield from results
            return
        for pod in self._moving[mark:]:
            self._disruptions.refund(pod)
        del self._moving[mark:]
        key = held.waiting.pod.key
        for result in results:
            failed = held.failed and f"its {kind} stays: {key} {held.failed}"
            waits = held.waits and f"its {kind} waits: {key}: {held.waits}"
            yield ArbitrationResult(result.waiting, failed, waits)

    def _judge(self, candidate: WaitingJob, gang: PlacedGang) -> ArbitrationResult:
        pod, workload = candidate.pod, workload_state(candidate.pod, self._cluster)
        if candidate.job.is_ordered:
            why = "it would start again on its node" if belongs_to_node(pod) else ""
        else:
            why = lasting_obstacle(pod, self._rules, workload)
        if why:
            return ArbitrationResult(candidate, failed=why)
        why = passing_obstacle(pod, self._rules, self._moving, workload, gang.keys)
        why = why or self._disruptions.refusal(pod)
        if why:
            return ArbitrationResult(candidate, waits=why)
        self._moving.append(pod)
        self._disruptions.charge(pod)
        return ArbitrationResult(candidate)


def _job_of(pod: ObservedPod) -> str:
    """The uid of a pod's Job; "" if it is none's."""
    controller = pod.template.controller
    return controller.uid if controller is not None and controller.kind == "Job" else ""
