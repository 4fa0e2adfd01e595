"""All that decides about the next step of a job. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from koord_descheduler.migration.core.job import (
    LABEL_EVICT_POLICY,
    MigrationJob,
    PodReference,
)
from koord_descheduler.migration.core.job_reservation import NO_RESERVATION, JobReservation
from koord_descheduler.migration.core.soft_eviction import (
    ANNOTATION_SOFT_EVICTION,
    notice_author,
)
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.plugins.migration_controller.args import EvictionPolicy, MigrationMode


class GroupProgress(NamedTuple):
    """The other jobs of a gang, or of a set of moves.

    Pods ``without_place`` have none yet; those of ``earlier`` waves have not left yet. ``failed``
    says which job failed first and why, "" for none. ``missing`` jobs are not there.
    """

    without_place: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    failed: str = ""
    missing: int = 0


ALONE = GroupProgress()


@dataclass(frozen=True)
class JobSituation:
    """A job and the objects that it is about; ``now`` is in seconds since the epoch.

    ``pod`` is the one that has the name of the job's pod now. ``new_pod`` is the one that came in
    its place, if it is still there. The waits are in seconds: until the object limiters allow an
    eviction, and until one may be sent (again).
    """

    job: MigrationJob
    now: float
    pod: ObservedPod | None = None
    reservation: JobReservation = NO_RESERVATION
    new_pod: ObservedPod | None = None
    default_mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    default_policy: EvictionPolicy = EvictionPolicy.EVICTION
    limiter_wait: float = 0.0
    eviction_wait: float = 0.0
    group: GroupProgress = ALONE

    @property
    def is_direct(self) -> bool:
        """True if nothing is reserved."""
        return (self.job.mode or self.default_mode) == MigrationMode.EVICT_DIRECTLY

    @property
    def policy(self) -> EvictionPolicy:
        """The way to end the pod, as the pod says, the job, or the arguments."""
        for labels in (self.pod.labels if self.pod is not None else {}, self.job.labels):
            if (given := labels.get(LABEL_EVICT_POLICY, "")) in tuple(EvictionPolicy):
                return EvictionPolicy(given)
        return self.default_policy

    @property
    def has_own_pod(self) -> bool:
        """True if the job's pod is there, and not another one of its name."""
        return self.pod is not None and self.job.pod.uid in ("", self.pod.uid)

    @property
    def is_before_eviction(self) -> bool:
        """True until there is a decision to evict."""
        return self.job.condition("Eviction") is None

    @property
    def has_evicted(self) -> bool:
        """True if the pod is gone."""
        return self.job.has_evicted

    @property
    def is_evicting(self) -> bool:
        """True from the decision to evict until the pod is gone."""
        return not (self.is_before_eviction or self.has_evicted)

    @property
    def is_ending(self) -> bool:
        """True if the pod ends, or its owner has a notice to end it."""
        pod = self.pod
        if pod is None:
            return False
        is_soft = self.policy is EvictionPolicy.SOFT_EVICTION
        return pod.deleted is not None or (is_soft and ANNOTATION_SOFT_EVICTION in pod.annotations)

    @property
    def has_own_notice(self) -> bool:
        """True if the pod has a notice of this very job."""
        author = notice_author(self.pod) if self.pod is not None else None
        return author is not None and author.uid == self.job.uid

    @property
    def may_stop(self) -> bool:
        """True while the pod is there and does not end: nothing is lost but the plan."""
        return not (self.has_evicted or self.is_ending) and self.has_own_pod

    @property
    def owns_reservation(self) -> bool:
        """True if the Reservation was made for this very job."""
        return self.reservation.is_there and self.reservation.job_uid == self.job.uid

    @property
    def is_for_pending_pod(self) -> bool:
        """True if the pod has no node yet, and takes the Reservation itself."""
        return self.reservation.is_for_pod(self.job.pod)

    @property
    def bypasses_limiters(self) -> bool:
        """True if the job says so."""
        return self.job.is_ordered

    @property
    def successor(self) -> PodReference | None:
        """The pod that took the Reservation."""
        owners = self.reservation.current_owners
        return next((owner for owner in owners if owner.uid != self.job.pod.uid), None)

    @property
    def has_stranger(self) -> bool:
        """True if the Reservation went to a pod of another controller than the job's pod."""
        if self.successor is None:
            return self.reservation.is_used
        controller = self.job.origin.controller
        return bool(controller) and self.new_pod is not None and self.new_pod.owner != controller
