"""The interface of eviction backends. No IO."""

from __future__ import annotations

from typing import Protocol

from koord_kube.core.evictions import EvictionOutcome

from koordlet.states_informer.state.pod_inventory import PodRecord


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
