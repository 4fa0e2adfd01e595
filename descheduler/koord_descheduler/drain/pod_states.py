"""The state of each pod of a drain. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from koord_descheduler.drain.drain_objects import MigrationState, ReservationState, part_name
from koord_descheduler.drain.drain_spec import JobMode
from koord_descheduler.drain.drained_pods import DrainedPod
from koord_descheduler.drain.place_plan import PlannedPlace

UNSCHEDULED_SECONDS = 30.0
"""For so long the scheduler may look for a Reservation's node; then another place is planned."""


class DrainStage(StrEnum):
    """The state of a pod, in the order in which people look for them."""

    BLOCKED = "Blocked"
    """Something keeps it on the node."""
    FAILED = "Failed"
    """Its migration failed; it is tried again."""
    WAITING = "Waiting"
    """Its Reservation has no node yet, or it is to end by itself."""
    PLANNED = "Planned"
    """It has a place, which is not reserved yet."""
    READY = "Ready"
    """It can move."""
    MIGRATING = "Migrating"
    """It moves, or ends."""


class PodState(NamedTuple):
    """A pod that has to leave, and what was done for it."""

    pod: DrainedPod
    stage: DrainStage
    why: str = ""
    target: str = ""
    reservation: ReservationState | None = None
    job: MigrationState | None = None

    @property
    def is_proved(self) -> bool:
        """True if it has a place, or ends by itself."""
        return self.pod.waits or self.stage in (DrainStage.READY, DrainStage.MIGRATING)

    @property
    def is_obstructed(self) -> bool:
        """True if it cannot move at present."""
        return self.stage in (DrainStage.BLOCKED, DrainStage.FAILED)

    @property
    def may_be_deleted(self) -> bool:
        """True if only the lack of a place, or of a budget, is in its way."""
        return not self.pod.obstacle and not self.pod.is_leaving


class DrainParts(NamedTuple):
    """The Reservations and jobs of a drain, by name."""

    uid: str
    reservations: Mapping[str, ReservationState]
    jobs: Mapping[str, MigrationState]

    def of(self, pod: DrainedPod) -> tuple[ReservationState | None, MigrationState | None]:
        """Those of a pod."""
        name = part_name(self.uid, pod.view.uid)
        return self.reservations.get(name), self.jobs.get(name)

    def settled(self, pods: Iterable[DrainedPod]) -> dict[str, str]:
        """The nodes of Reservations, by the pods that they are for."""
        found = ((pod.view.key, self.of(pod)[0]) for pod in pods)
        return {key: each.node for key, each in found if each is not None and each.node}


def needs_place(pod: DrainedPod, parts: DrainParts) -> bool:
    """True if a place has to be planned for a pod."""
    if pod.waits or pod.obstacle or pod.is_leaving or pod.is_evicted or not pod.view.owner:
        return False
    return parts.of(pod) == (None, None)


def pod_state(
    pod: DrainedPod, place: PlannedPlace | None, parts: DrainParts, mode: JobMode, now: float
) -> PodState:
    """The state of a pod, with its planned place if it needs one."""
    reservation, job = parts.of(pod)
    target = reservation.node if reservation is not None else place.node if place else ""
    stage, why = _stage(pod, place, reservation, job, mode, now)
    return PodState(pod, stage, why, target, reservation, job)


def _stage(
    pod: DrainedPod,
    place: PlannedPlace | None,
    reservation: ReservationState | None,
    job: MigrationState | None,
    mode: JobMode,
    now: float,
) -> tuple[DrainStage, str]:
    if pod.is_leaving:
        return DrainStage.MIGRATING, "it ends"
    if pod.obstacle:
        return DrainStage.BLOCKED, pod.obstacle
    if pod.waits:
        return DrainStage.WAITING, "until it has ended by itself"
    if pod.is_evicted:
        return DrainStage.READY, "it is evicted as soon as its budget allows that"
    if job is not None:
        failed = job.has_ended and job.phase != "Succeeded"
        return (DrainStage.FAILED if failed else DrainStage.MIGRATING), job.why
    if reservation is not None:
        return _reserved(reservation, now)
    if not pod.view.owner:
        return DrainStage.READY, "nothing comes in its place"
    if place is None or not place.node:
        return DrainStage.BLOCKED, place.why if place else "no place was planned"
    return (DrainStage.READY if mode is JobMode.DIRECT else DrainStage.PLANNED), ""


def _reserved(reservation: ReservationState, now: float) -> tuple[DrainStage, str]:
    if reservation.phase == "Available" and reservation.node:
        return DrainStage.READY, ""
    about = f"Reservation {reservation.name}: {reservation.why or reservation.phase}"
    waited = now - reservation.created >= UNSCHEDULED_SECONDS
    if reservation.phase != "Pending" or (reservation.why and waited):
        return DrainStage.FAILED, about
    return DrainStage.WAITING, about
