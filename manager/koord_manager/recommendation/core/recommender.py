"""Requests and limits of containers by what they used: decaying histograms and percentiles. No IO.

The request is a percentile of usage, the limit the greatest usage, both with a safety margin.
Samples weigh half after each half-life. A container that was killed for its memory gets at least
its limit then, times 1.2 or plus 100 MB, for a week; kills ask for no more than the largest node
has, with more it would run nowhere. The numbers are Katalyst's ResourceRecommend's (growth 5 %,
half-life 24 h, 24 h of samples at least, the bump after a kill).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, KeysView, Mapping
from dataclasses import dataclass, replace

from koord_model.decision import Decision, Term
from koord_prediction.amount import ResourceAmount, each
from koord_prediction.checkpoint import Checkpoint
from koord_prediction.models import Models

_BUMP_FACTOR, _BUMP_BYTES = 1.2, 100e6
_BUMP_SECONDS = 7 * 86400.0
_MIB = 1 << 20
_LEAST = ResourceAmount(0.01, 16 * _MIB)
_FORGET_SECONDS = 14 * 86400.0
_MOST_CONTAINERS = 48
"""Of one workload: what is known of so many fits into an annotation (256 KiB of all)."""


@dataclass(frozen=True, slots=True)
class RecommendationPolicy:
    """Percentiles are fractions, times seconds; ``margin`` is a fraction on top."""

    cpu_percentile: float = 0.9
    memory_percentile: float = 0.95
    margin: float = 0.15
    half_life: float = 86400.0
    least_history: float = 86400.0


@dataclass(frozen=True, slots=True)
class ContainerLearning:
    """State of learning about a container, besides histograms; times are of the epoch.

    ``since`` is its first sample. ``floor`` is the memory, in bytes, that it has to have since it
    was killed at ``killed_at``.
    """

    since: float = 0.0
    samples: int = 0
    floor: float = 0.0
    killed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerRecommendation:
    """Recommended values for a container; ``decisions`` are the arithmetic of the requests."""

    container: str
    request: ResourceAmount
    limit: ResourceAmount
    decisions: tuple[Decision, ...] = ()


class Recommender:
    """Learns by (workload, container), and recommends; a workload is any name."""

    def __init__(self, policy: RecommendationPolicy = RecommendationPolicy()) -> None:
        self.policy = policy
        self._models = Models(policy.half_life, policy.half_life, expiration=_FORGET_SECONDS)
        self._learning: dict[str, dict[str, ContainerLearning]] = {}

    def workloads(self) -> KeysView[str]:
        """Workloads with a state of learning."""
        return self._learning.keys()

    def learn(self, samples: Collection[tuple[str, str, ResourceAmount]], at: float) -> None:
        """Samples of one moment: workload, container, and what one pod's container used.

        A workload has no more than 48 containers: further ones do not count.
        """
        taken = [sample for sample in samples if self._find(sample[0], sample[1]) is not None]
        self._models.add([(_uid(name, inner), used) for name, inner, used in taken], at)
        for name, inner, _ in taken:
            known = self._learning[name][inner]
            since = known.since if known.samples else at
            self._learning[name][inner] = replace(known, since=since, samples=known.samples + 1)

    def killed(self, workload: str, container: str, limit: int, at: float) -> None:
        """Add a kill for exceeding ``limit`` bytes; add kills in their order.

        What is not later than the last one changes nothing: it may be the same, of a container
        that has more by now. A kill counts for a week, also where others follow it. That of a
        container without a sample does not.
        """
        known = self._learning.get(workload, {}).get(container)
        if known is None or at <= known.killed_at:
            return
        floor = max(limit * _BUMP_FACTOR, limit + _BUMP_BYTES)
        if at - known.killed_at < _BUMP_SECONDS:
            floor = max(floor, known.floor)
        self._learning[workload][container] = replace(known, floor=floor, killed_at=at)

    def history(self, workload: str, at: float) -> float:
        """Seconds since its first sample; of several containers since the first of any."""
        known = self._learning.get(workload, {}).values()
        return max((at - learning.since for learning in known if learning.samples), default=0.0)

    def advise(
        self, workload: str, at: float, containers: Iterable[str], largest: float = math.inf
    ) -> tuple[ContainerRecommendation, ...]:
        """For those of its containers that are known for long enough.

        ``largest`` is the memory of the largest node, in bytes: kills ask for no more.
        """
        found = []
        for name in containers:
            known = self._learning.get(workload, {}).get(name)
            if known and known.samples and at - known.since >= self.policy.least_history:
                found += self._advice(workload, name, known, at, largest)
        return tuple(found)

    def keep_only(self, workloads: Collection[str]) -> None:
        """Forget all others."""
        for name in self._learning.keys() - set(workloads):
            for inner in self._learning.pop(name):
                self._models.drop(_uid(name, inner))

    def forget(self, at: float) -> None:
        """Forget containers without a sample for 14 days: they are called otherwise now."""
        for uid in self._models.forget(at):
            workload, _, container = uid.partition("\n")
            self._learning.get(workload, {}).pop(container, None)

    def checkpoints(self, workload: str) -> Mapping[str, tuple[ContainerLearning, Checkpoint]]:
        """Return a workload's state by container, to be stored elsewhere."""
        known = self._learning.get(workload, {})
        return {
            name: (learning, self._models.checkpoint(_uid(workload, name)))
            for name, learning in known.items()
            if learning.samples
        }

    def restore(
        self,
        workload: str,
        container: str,
        learning: ContainerLearning,
        model: Checkpoint,
        at: float,
    ) -> None:
        """Restore what ``checkpoints`` returned; no time is later than ``at``, whoever wrote it.

        Raises:
            ValueError: it was learnt in the future.
        """
        if self._find(workload, container) is None:
            return
        uid = _uid(workload, container)
        self._models.restore(Checkpoint(uid, model.cpu, model.memory, model.updated), at)
        since, killed_at = min(learning.since, at), min(learning.killed_at, at)
        self._learning[workload][container] = replace(learning, since=since, killed_at=killed_at)

    def _advice(
        self, workload: str, container: str, known: ContainerLearning, at: float, largest: float
    ) -> list[ContainerRecommendation]:
        """One, or none of a container of which no sample has any weight."""
        uid, policy = _uid(workload, container), self.policy
        usual = self._models.percentiles(policy.cpu_percentile, policy.memory_percentile, [uid])
        if uid not in usual:
            return []
        greatest = self._models.percentiles(1.0, 1.0, [uid])[uid]
        if at - known.killed_at >= _BUMP_SECONDS:
            known = replace(known, floor=0.0)
        floor = known.floor if known.floor <= largest else largest // _MIB * _MIB
        request = self._above(usual[uid], floor)
        limit = each(max, self._above(greatest, floor), request)
        decisions = self._decisions(usual[uid], known, largest, request, at)
        return [ContainerRecommendation(container, request, limit, decisions)]

    def _above(self, used: ResourceAmount, floor: float) -> ResourceAmount:
        """With the margin, in steps that people write: whole millicores and MiB."""
        needed = used.times(1 + self.policy.margin)
        needed = each(max, ResourceAmount(needed.cpu, max(needed.memory, floor)), _LEAST)
        return ResourceAmount(
            math.ceil(round(needed.cpu * 1000, 6)) / 1000, math.ceil(needed.memory / _MIB) * _MIB
        )

    def _decisions(
        self,
        usual: ResourceAmount,
        known: ContainerLearning,
        largest: float,
        request: ResourceAmount,
        at: float,
    ) -> tuple[Decision, ...]:
        policy, days = self.policy, (at - known.since) / 86400
        shared = (
            Term("margin", 100 * policy.margin, "%"),
            Term("half-life", policy.half_life / 3600, "h"),
            Term("samples", known.samples),
            Term("history", days, "d"),
        )
        cpu = Term(f"p{100 * policy.cpu_percentile:g} of usage", usual.cpu, "cores")
        memory = Term(f"p{100 * policy.memory_percentile:g} of usage", usual.memory, "bytes")
        killed, floor = [], "floor after a kill"
        if known.floor:
            killed.append(Term("at least, since it ran out of memory", known.floor, "bytes"))
        if known.floor > largest:
            killed.append(Term("largest node", largest, "bytes"))
            floor = f"min({floor}, largest node)"
        return (
            Decision(f"CPU {request.cpu:g} cores", "percentile × (1 + margin)", (cpu, *shared)),
            Decision(
                f"memory {request.memory / _MIB:.0f} MiB",
                f"max(percentile × (1 + margin), {floor})",
                (memory, *shared, *killed),
            ),
        )

    def _find(self, workload: str, container: str) -> ContainerLearning | None:
        """Its data, empty at first; ``None`` if there is no room."""
        known = self._learning.setdefault(workload, {})
        if container not in known and len(known) >= _MOST_CONTAINERS:
            return None
        return known.setdefault(container, ContainerLearning())


def _uid(workload: str, container: str) -> str:
    return f"{workload}\n{container}"
