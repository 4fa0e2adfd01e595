"""A PodMigrationJob as it is read. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_model import duration
from koord_model.times import from_rfc3339

from koord_descheduler.objects.observed_pod import ObservedPod, PodTraits, WorkloadName
from koord_descheduler.planner.move import MoveSet
from koord_descheduler.plugins.migration_controller.who_may_move import ANNOTATION_EVICT

ANNOTATION_REASON = "koordinator.sh/evict-reason"
ANNOTATION_TRIGGER = "koordinator.sh/evict-trigger"
ANNOTATION_CREATED_BY = "koordinator.sh/job-created-by"
ANNOTATION_PASSED = "descheduler.koordinator.sh/passed-arbitration"
"""For people: what counts is the phase, which a user of jobs cannot write."""
ANNOTATION_MOVE_SET = "descheduler.koordinator.sh/move-set"
"""``MoveSet`` as JSON: the moves that this one counts on, or that count on it."""
ANNOTATION_ORIGIN = "descheduler.koordinator.sh/origin"
"""``JobOrigin`` as JSON, written when the job begins."""
ANNOTATION_PREFERRED_NODE = "descheduler.koordinator.sh/preferred-node"
ANNOTATION_REQUIRED_NODE = "descheduler.koordinator.sh/required-node"
LABEL_EVICT_POLICY = "koordinator.sh/evict-policy"

LONGEST_WITHOUT_TTL = 1800.0
"""Seconds for a job that says nothing; Koordinator deletes it then."""
GROUP_STAYS = ("its gang stays: ", "its set stays: ")
"""Beginnings of messages of jobs that stop since another one failed."""
KEPT_SECONDS = 300.0
"""Time for which a job stays after it could have ended."""


class JobPhase(StrEnum):
    """The phases of jobs; a job that was just made has none."""

    NEW = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A condition; of Eviction the probe time is when the eviction began."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class PodReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod; ``uid`` is "" where a job by hand does not say."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class JobOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pod as it was when its job began.

    ``controller`` is the uid of the one that makes it anew, ``replicas`` are those of its workload
    as far as they are known. Jobs with the same ``gang`` began together.
    """

    node: str = ""
    controller: str = ""
    workload: WorkloadName | None = None
    replicas: int | None = None
    gang: str = ""

    def pod(self, reference: PodReference) -> ObservedPod:
        """The pod, as far as it counts for limits after it is gone."""
        found = self.workload
        owner = (
            (OwnerReference(found.kind, found.name, self.controller, True, found.api_version),)
            if found is not None
            else ()
        )
        traits = PodTraits(namespace=reference.namespace, owners=owner)
        uid, node = reference.uid, self.node
        return ObservedPod(reference.key, uid, node, traits, 0.0, None, None, "Running", "", (), ())


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _ReservationOptions(msgspec.Struct, frozen=True, rename="camel"):
    reservation_ref: _Named | None = None
    template: dict[str, Any] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    paused: bool = False
    ttl: str | None = None
    mode: str = ""
    pod_ref: PodReference | None = None
    reservation_options: _ReservationOptions | None = None
    delete_options: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[JobCondition] | None = None
    node_name: str = ""
    pod_ref: PodReference | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class MigrationJob(NamedTuple):
    """A job; ``ttl`` is in seconds, ``None`` where it says nothing.

    ``reservation`` is the name of the one that it refers to, ``template`` what it says of the one
    to be made. ``new_pod`` came in place of ``pod``, on ``node``.
    """

    name: str
    uid: str
    version: str
    created: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: PodReference
    mode: str
    ttl: float | None
    is_paused: bool
    reservation: str
    template: Mapping[str, Any] | None
    delete_options: Mapping[str, Any]
    phase: str
    status: str
    reason: str
    message: str
    conditions: tuple[JobCondition, ...]
    node: str
    new_pod: PodReference | None

    @property
    def is_waiting(self) -> bool:
        """True before its arbitration is passed."""
        return self.phase in (JobPhase.NEW, JobPhase.PENDING)

    @property
    def is_over(self) -> bool:
        """True if nothing happens to it any more."""
        return not self.is_waiting and self.phase != JobPhase.RUNNING

    @property
    def has_failed(self) -> bool:
        """True if it is over, and its pod did not move by it."""
        return self.phase in (JobPhase.FAILED, JobPhase.ABORTED)

    @property
    def created_by(self) -> str:
        """The descheduler that made it; "" by hand."""
        return self.annotations.get(ANNOTATION_CREATED_BY, "")

    @property
    def is_ordered(self) -> bool:
        """True if whoever made it answers for it, by the annotation ``ANNOTATION_EVICT``.

        Rules of who may never move, and object limiters, do not count then.
        """
        return ANNOTATION_EVICT in self.annotations

    @property
    def trigger(self) -> str:
        """The plugin that wanted it."""
        return self.annotations.get(ANNOTATION_TRIGGER, "")

    @property
    def eviction_reason(self) -> str:
        """The reason for people, as Koordinator chooses it."""
        return self.annotations.get(ANNOTATION_REASON, "") or self.trigger or "NotSet"

    @property
    def planned_node(self) -> str:
        """The node that was planned for the pod; "" for none."""
        required = self.annotations.get(ANNOTATION_REQUIRED_NODE, "")
        return required or self.annotations.get(ANNOTATION_PREFERRED_NODE, "")

    @property
    def origin(self) -> JobOrigin:
        """The pod as it was; nothing before the job began, or where somebody wrote nonsense."""
        try:
            return _ORIGIN.decode(self.annotations.get(ANNOTATION_ORIGIN, "{}"))
        except msgspec.MsgspecError:
            return JobOrigin()

    @property
    def move_set(self) -> MoveSet | None:
        """The set of moves that it is part of; ``None`` too where somebody wrote nonsense."""
        try:
            return _MOVE_SET.decode(self.annotations[ANNOTATION_MOVE_SET])
        except (KeyError, msgspec.MsgspecError):
            return None

    @property
    def group(self) -> str:
        """The same of jobs that move together: of a set, or of pods of a gang; "" for none."""
        move_set = self.move_set
        return self.origin.gang if move_set is None else move_set.name

    @property
    def is_stopped(self) -> bool:
        """True if it failed since another one of its group did."""
        return self.phase == JobPhase.FAILED and self.message.startswith(GROUP_STAYS)

    @property
    def has_evicted(self) -> bool:
        """True if its pod is gone."""
        eviction = self.condition("Eviction")
        return eviction is not None and eviction.status == "True"

    def condition(self, kind: str) -> JobCondition | None:
        """The condition of this type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def deadline(self) -> float:
        """Time at which it fails if it is not over; it counts from creation, arbitration too."""
        return self.created + (self.ttl or LONGEST_WITHOUT_TTL)

    @property
    def kept_until(self) -> float:
        """Time at which it is deleted."""
        return self.deadline + KEPT_SECONDS

    @property
    def eviction_began(self) -> float | None:
        """Time at which its eviction began; ``None``: it did not."""
        eviction = self.condition("Eviction")
        if eviction is None:
            return None
        at = eviction.last_probe_time or eviction.last_transition_time
        return self.created if at is None else from_rfc3339(at)


_DECODER = msgspec.json.Decoder(_Job)
_ORIGIN = msgspec.json.Decoder(JobOrigin)
_MOVE_SET = msgspec.json.Decoder(MoveSet)


def read_migration_job(raw: bytes) -> MigrationJob:
    """The job in a JSON document.

    Raises:
        ValueError: it is not a PodMigrationJob, or its ttl is not a duration.
    """
    job = decode_view(_DECODER, raw, "a valid PodMigrationJob")
    metadata, spec, status = job.metadata, job.spec, job.status
    options = spec.reservation_options or _ReservationOptions()
    created = metadata.creation_timestamp
    return MigrationJob(
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        0.0 if created is None else from_rfc3339(created),
        metadata.labels or {},
        metadata.annotations or {},
        spec.pod_ref or PodReference(),
        spec.mode,
        None if spec.ttl is None else duration.seconds(spec.ttl),
        spec.paused,
        options.reservation_ref.name if options.reservation_ref is not None else "",
        options.template,
        spec.delete_options or {},
        status.phase,
        status.status,
        status.reason,
        status.message,
        tuple(status.conditions or ()),
        status.node_name,
        status.pod_ref,
    )
