"""Pods that reservations are about to take over, until the API says that they own them. No IO."""

from __future__ import annotations

from collections.abc import Iterable

from koord_scheduler.plugins.reservation.pod_parts import RESERVATION
from koord_scheduler.state.pod_usage import PodUsage


class PreAllocatedPods:
    """By node, as owners; pods with equal usage are not distinguished.

    If another one with the usage of such a pod leaves the node, this counts as a pod beside the
    reservation for a moment, and nothing is promised that is not there. Which pods are taken is
    known by their uids until the reservation lets go of them: another one must not take them too.
    """

    def __init__(self) -> None:
        self._on: dict[str, list[PodUsage]] = {}
        self._takers: dict[str, str] = {}
        self._taken: dict[str, list[str]] = {}

    def add(self, node: str, owner: PodUsage) -> None:
        """A pod of a node counts as an owner from now on."""
        self._on.setdefault(node, []).append(owner)

    def take(self, pod: str, reservation: str) -> None:
        """A pod is the reservation's from now on, both by their uids."""
        self._takers[pod] = reservation
        self._taken.setdefault(reservation, []).append(pod)

    def taker(self, pod: str) -> str:
        """The uid of the reservation that takes the pod with this uid, "" if none does."""
        return self._takers.get(pod, "")

    def let_go(self, reservation: str) -> None:
        """A reservation did not get its node, or has ended: its pods may be taken again."""
        for pod in self._taken.pop(reservation, ()):
            self._takers.pop(pod, None)

    def pop(self, node: str, pod: PodUsage) -> PodUsage | None:
        """A pod leaves a node, or has changed; returns it as an owner if it counts as one."""
        for owner in self._on.get(node, ()):
            if owner.with_part(RESERVATION, pod.of(RESERVATION)) == pod:
                self._remove(node, [owner])
                return owner
        return None

    def pop_all(self, node: str, uid: str) -> list[PodUsage]:
        """All that count as owners of a reservation."""
        found = [usage for usage in self._on.get(node, ()) if usage.of(RESERVATION) == uid]
        self._remove(node, found)
        return found

    def _remove(self, node: str, owners: Iterable[PodUsage]) -> None:
        left = self._on.get(node, [])
        for owner in owners:
            left.remove(owner)
        if not left:
            self._on.pop(node, None)
