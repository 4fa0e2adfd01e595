"""A pod on a node, and what it takes there, in numbers of columns. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from koord_scheduler.objects.pod_times import NO_TIMES, PodTimes
from koord_scheduler.state.held_terms import HeldTerm
from koord_scheduler.state.pod_labels import PodLabels
from koord_scheduler.state.pod_parts import NO_PARTS, PodPart, PodParts
from koord_scheduler.state.ports import HostPort
from koord_scheduler.state.resources import Request

T = TypeVar("T", bound=Hashable)


class PodUsage(NamedTuple):
    """Amounts, ports and labels of a pod, ``scored`` as in ``PodRequests``, and features' parts."""

    request: Request
    scored: tuple[float, float]
    ports: tuple[HostPort, ...]
    labels: PodLabels
    terms: tuple[HeldTerm, ...] = ()
    parts: PodParts = NO_PARTS

    def of(self, key: PodPart[T]) -> T:
        """A feature's part of it."""
        found: T = self.parts.by_key.get(key, key.nothing)
        return found

    def with_part(self, key: PodPart[T], value: T) -> PodUsage:
        """The same with another part of this key."""
        return self._replace(parts=self.parts.with_part(key, value))


class PlacedPod(NamedTuple):
    """A pod on ``node``; ``key`` is namespace/name.

    ``started`` is when it started to run, in seconds since the epoch; ``None``: not yet.
    ``is_preempted``: it is terminating because a scheduler gave its place to another pod.
    """

    key: str
    uid: str
    node: str
    priority: int
    started: float | None
    usage: PodUsage
    is_preempted: bool = False
    times: PodTimes = NO_TIMES
