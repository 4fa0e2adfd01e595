"""Things to do for a drain in its phase. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from koord_kube.protocol.resources import POD_MIGRATION_JOBS, RESERVATIONS, Resource

from koord_descheduler.drain.drain_objects import (
    DRAINED,
    IN_PROGRESS,
    DrainedNode,
    MigrationState,
    NodeClaim,
    ReservationState,
    part_name,
)
from koord_descheduler.drain.drain_view import DrainStatus, DrainView, deletes, wave_of
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.drain.pod_states import DrainStage, PodState

RETRY_SECONDS = 60.0
"""A failed migration is planned anew so long after it began."""


class ClaimNode(NamedTuple):
    """Cordon the node for this drain, if it is still at this resource version."""

    version: str
    claim: NodeClaim


class ReleaseNode(NamedTuple):
    """Give the node up, and uncordon it if it was not cordoned before."""

    version: str
    uncordon: bool


class KeepFinalizer(NamedTuple):
    """Have the drain's deletion wait until all is undone, or no more."""

    keep: bool


class MakeReservation(NamedTuple):
    """Reserve its planned place for a pod."""

    name: str
    state: PodState


class MakeJob(NamedTuple):
    """Have a pod moved, to its Reservation if it has one."""

    name: str
    state: PodState


class DropPart(NamedTuple):
    """Delete a Reservation or a job."""

    resource: Resource
    name: str
    uid: str


class DeletePod(NamedTuple):
    """Delete a pod at the deadline, whatever budgets say."""

    state: PodState


class EvictPod(NamedTuple):
    """Evict a pod, as budgets allow."""

    state: PodState


class SetConditions(NamedTuple):
    """Set the node's conditions, by type."""

    conditions: dict[str, bool]


DrainAct = (
    ClaimNode
    | ReleaseNode
    | KeepFinalizer
    | MakeReservation
    | MakeJob
    | DropPart
    | DeletePod
    | EvictPod
    | SetConditions
)


def drain_acts(view: DrainView, status: DrainStatus) -> Iterator[DrainAct]:
    phase = status.phase
    if phase is DrainPhase.ABORTED:
        yield from _undo(view)
        return
    if view.spec.is_dry_run:
        return
    if phase is DrainPhase.PENDING:
        yield from _claim(view)
        return
    yield from _set_conditions(view, status)
    if phase is DrainPhase.FAILED:
        yield from _drop_all(view)
        return
    yield from _drop_orphans(view)
    if phase is DrainPhase.PLANNING:
        yield from _reserve(view.pods, view)
    elif phase is DrainPhase.RUNNING:
        yield from _move(view)
    elif phase is DrainPhase.BLOCKED:
        yield from _retry(view)


def _claim(view: DrainView) -> Iterator[DrainAct]:
    node = view.node
    if node is None:
        return
    if not view.has_finalizer:
        yield KeepFinalizer(keep=True)
    old = node.claim
    if old is not None and old.uid in view.claimants:
        return
    was_cordoned = node.is_cordoned if old is None else old.was_cordoned
    yield ClaimNode(node.version, NodeClaim(view.name, view.uid, was_cordoned))


def _reserve(pods: Iterable[PodState], view: DrainView) -> Iterator[DrainAct]:
    for state in pods:
        if state.stage is DrainStage.PLANNED:
            yield MakeReservation(part_name(view.uid, state.pod.view.uid), state)


def _move(view: DrainView) -> Iterator[DrainAct]:
    if deletes(view):
        yield from (DeletePod(state) for state in view.pods if state.may_be_deleted)
        return
    wave = wave_of(view)
    yield from _reserve(wave, view)
    yield from _retry(view)
    for state in wave:
        if state.stage is DrainStage.READY and state.pod.is_evicted:
            yield EvictPod(state)
        elif state.stage is DrainStage.READY:
            yield MakeJob(part_name(view.uid, state.pod.view.uid), state)


def _retry(view: DrainView) -> Iterator[DrainAct]:
    """Forget what failed, so that it is planned anew."""
    for state in view.pods:
        if state.stage is not DrainStage.FAILED:
            continue
        began = max((part.created for part in (state.job, state.reservation) if part), default=0.0)
        if view.now - began >= RETRY_SECONDS:
            yield from _drop(state.job, state.reservation)


def _drop_orphans(view: DrainView) -> Iterator[DrainAct]:
    """Free the room that is kept for pods that are gone."""
    here = {part_name(view.uid, state.pod.view.uid) for state in view.pods}
    for name, reservation in view.parts.reservations.items():
        job = view.parts.jobs.get(name)
        if name not in here and (job is None or job.has_ended):
            yield from _drop(None, reservation)


def _drop_all(view: DrainView) -> Iterator[DrainAct]:
    """Jobs first, so that none moves a pod whose place is gone."""
    for job in view.parts.jobs.values():
        yield from _drop(job, None)
    for reservation in view.parts.reservations.values():
        yield from _drop(None, reservation)


def _drop(job: MigrationState | None, reservation: ReservationState | None) -> Iterator[DrainAct]:
    if job is not None:
        yield DropPart(POD_MIGRATION_JOBS, job.name, job.uid)
    if reservation is not None:
        yield DropPart(RESERVATIONS, reservation.name, reservation.uid)


def _undo(view: DrainView) -> Iterator[DrainAct]:
    yield from _drop_all(view)
    node, claim = view.node, view.own_claim
    if node is not None and claim is not None:
        changes = tuple(_change_conditions(node, {IN_PROGRESS: False, DRAINED: False}))
        yield from changes or (ReleaseNode(node.version, not claim.was_cordoned),)
    elif view.has_finalizer and view.is_undone:
        yield KeepFinalizer(keep=False)


def _set_conditions(view: DrainView, status: DrainStatus) -> Iterator[DrainAct]:
    node, phase = view.node, status.phase
    if node is None or not view.is_claimed:
        return
    is_begun = status.confirmed_at is not None
    moves = is_begun and phase in (DrainPhase.RUNNING, DrainPhase.BLOCKED)
    yield from _change_conditions(node, {IN_PROGRESS: moves, DRAINED: phase is DrainPhase.DRAINED})


def _change_conditions(node: DrainedNode, desired: dict[str, bool]) -> Iterator[DrainAct]:
    """Change those that are otherwise; one that is not there is as good as false."""
    changed = {
        name: holds
        for name, holds in desired.items()
        if node.conditions.get(name, "False") != str(holds)
    }
    if changed:
        yield SetConditions(changed)
