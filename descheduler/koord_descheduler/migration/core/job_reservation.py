"""A Reservation as migrations read it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from koord_kube.protocol.resources import POD_MIGRATION_JOBS
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_model.keys import LABEL_RESERVATION_ORDER
from koord_scheduler.plugins.reservation.objects import (
    FAILED,
    PENDING,
    SUCCEEDED,
    ReservationCondition,
    ReservationOwner,
)

from koord_descheduler.migration.core.job import PodReference


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class _Spec(msgspec.Struct, frozen=True):
    owners: list[ReservationOwner] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    node_name: str = ""
    conditions: list[ReservationCondition] | None = None
    current_owners: list[PodReference] | None = None


class _Reservation(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class JobReservation(NamedTuple):
    """A Reservation; ``job`` and ``job_uid`` are of the job that it was made for, "" for none."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = {}
    job: str = ""
    job_uid: str = ""
    owners: tuple[ReservationOwner, ...] = ()
    phase: str = ""
    node: str = ""
    conditions: tuple[ReservationCondition, ...] = ()
    current_owners: tuple[PodReference, ...] = ()

    @property
    def is_there(self) -> bool:
        """False of ``NO_RESERVATION``."""
        return bool(self.name)

    @property
    def is_pending(self) -> bool:
        """True before the scheduler has found a node."""
        return self.is_there and self.phase in ("", PENDING)

    @property
    def is_used(self) -> bool:
        """True if a pod has it, or had it."""
        return self.phase == SUCCEEDED or bool(self.current_owners)

    @property
    def has_expired(self) -> bool:
        """True if its time is over."""
        return self.phase == FAILED and self._has("Ready", "Expired") is not None

    @property
    def is_scheduled(self) -> bool:
        """True if it keeps room on a node."""
        found = self._has("Scheduled", "Scheduled")
        return bool(self.node) and found is not None and found.status == "True"

    @property
    def unschedulable(self) -> str | None:
        """The scheduler's reason why there is no node for it; ``None``: it says nothing."""
        found = self._has("Scheduled", "Unschedulable")
        return None if found is None else found.message

    @property
    def has_order(self) -> bool:
        """True if pods prefer it to those without."""
        return LABEL_RESERVATION_ORDER in self.labels

    def is_for_pod(self, pod: PodReference) -> bool:
        """True if the pod itself may take it, which waits for a node: then nothing is evicted."""
        return any(
            owner.object is not None
            and owner.controller is None
            and owner.label_selector is None
            and (owner.object.namespace, owner.object.name) == (pod.namespace, pod.name)
            for owner in self.owners
        )

    def _has(self, kind: str, reason: str) -> ReservationCondition | None:
        return next((c for c in self.conditions if (c.type, c.reason) == (kind, reason)), None)


NO_RESERVATION = JobReservation("")
_DECODER = msgspec.json.Decoder(_Reservation)


def read_job_reservation(raw: bytes) -> JobReservation:
    """The Reservation in a JSON document.

    Raises:
        ValueError: it is not a Reservation.
    """
    found = decode_view(_DECODER, raw, "a valid Reservation")
    metadata, status = found.metadata, found.status
    references = metadata.owner_references or ()
    jobs = (owner for owner in references if owner.kind == POD_MIGRATION_JOBS.kind)
    job = next(jobs, OwnerReference())
    return JobReservation(
        metadata.name,
        metadata.uid,
        metadata.labels or {},
        job.name,
        job.uid,
        tuple(found.spec.owners or ()),
        status.phase,
        status.node_name,
        tuple(status.conditions or ()),
        tuple(status.current_owners or ()),
    )
