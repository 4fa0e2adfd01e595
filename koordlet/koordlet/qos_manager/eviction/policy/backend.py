"""The interface of eviction backends, and their results. No IO."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from koordlet.states_informer.state.pod_inventory import PodRecord


class EvictionResult(StrEnum):
    """The result of an eviction."""

    EVICTED = "evicted"  # it ends, or has ended
    GONE = "gone"  # it was gone before
    REFUSED = "refused"  # it stays: a disruption budget, or no right to do this
    FAILED = "failed"  # it stays: an error
    UNKNOWN = "unknown"  # nobody answered in time


class EvictionOutcome(NamedTuple):
    """``reason`` is one line; ``again_after`` is when it may be tried again, in seconds.

    ``disrupted`` is whether the pod was hit though it stays: then it counts as an eviction.
    """

    end: EvictionResult
    reason: str = ""
    again_after: float = 0.0
    disrupted: bool = False


class EvictionBackend(Protocol):
    """One way to evict; ``name`` is for people.

    ``pod_stays`` is whether only the containers end, and the pod is still there.
    """

    name: str
    pod_stays: bool

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        """Evict a pod, which has ``grace_seconds`` to end in; ``forced``: less than it asks for.

        Takes no longer than that and a minute. Raises nothing that has to do with the pod.
        """
        ...

    async def close(self) -> None:
        """Release open connections."""
        ...
