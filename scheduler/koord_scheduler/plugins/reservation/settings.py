"""Arguments of the plugin Reservation, as it needs them. No IO."""

from __future__ import annotations

from dataclasses import dataclass

from koord_model.keys import LABEL_PRE_ALLOCATABLE

from koord_scheduler.plugins.reservation.columns import DEFAULT_CANDIDATES, CandidateCount
from koord_scheduler.state.pod_class import PodClass


@dataclass(frozen=True)
class ReservationSettings:
    """With ``preempts`` reservations may take the place of pods.

    ``cluster_mode``: they may take over pods with the label ``pre_allocatable``, too.
    ``prefers_free_room``: they do so only where there is no room without.
    ``ignored_resources`` and ``ignored_groups`` (the part of a name before "/") are extended
    resources that others see to. Reservations are kept for ``keep_seconds`` after they ended;
    ``None``: for ever.
    """

    preempts: bool = False
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    cluster_mode: bool = False
    pre_allocatable: str = LABEL_PRE_ALLOCATABLE
    prefers_free_room: bool = False
    enough_candidates: CandidateCount = DEFAULT_CANDIDATES
    keep_seconds: float | None = None

    def ignored(self, pod: PodClass) -> frozenset[str]:
        """Those that a class asks for."""
        names = (name for name, _ in pod.amounts if "/" in name)
        return frozenset(
            name
            for name in names
            if name in self.ignored_resources or name.partition("/")[0] in self.ignored_groups
        )
