"""All that a step of a drain depends on. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_descheduler.drain.drain_objects import DrainedNode, NodeClaim
from koord_descheduler.drain.drain_spec import DrainSpec
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.drain.pod_states import DrainParts, PodState


class DrainStatus(NamedTuple):
    """The state of a drain that its status keeps; times are in seconds since the epoch."""

    phase: DrainPhase = DrainPhase.PENDING
    message: str = ""
    was_cordoned: bool = False
    confirmed_at: float | None = None
    ended_at: float | None = None
    drained: int = 0


class DrainView(NamedTuple):
    """All that a step depends on; ``claimants`` are the UIDs of all DrainNodes."""

    name: str
    uid: str
    spec: DrainSpec
    status: DrainStatus
    node: DrainedNode | None
    pods: tuple[PodState, ...]
    parts: DrainParts
    now: float
    is_deleted: bool = False
    has_finalizer: bool = False
    claimants: frozenset[str] = frozenset()

    @property
    def own_claim(self) -> NodeClaim | None:
        """The claim of the node if it is this drain's."""
        claim = self.node.claim if self.node is not None else None
        return claim if claim is not None and claim.uid == self.uid else None

    @property
    def is_claimed(self) -> bool:
        """True if the node is this drain's; a dry run needs none."""
        return self.spec.is_dry_run or self.own_claim is not None

    @property
    def is_undone(self) -> bool:
        """True if nothing of the drain is left."""
        return not (self.own_claim or self.parts.reservations or self.parts.jobs)


def is_overdue(view: DrainView) -> bool:
    """True if the deadline has passed."""
    deadline, since = view.spec.deadline, view.status.confirmed_at
    return deadline is not None and since is not None and view.now - since >= deadline


def deletes(view: DrainView) -> bool:
    """True if the deadline has passed, and some pods are to be deleted or end already."""
    deletable = any(state.may_be_deleted or state.pod.is_leaving for state in view.pods)
    return is_overdue(view) and view.spec.deletes_at_deadline and deletable


def goes_on(view: DrainView) -> bool:
    """True if some pod of the wave is on its way."""
    return deletes(view) or any(not state.is_obstructed for state in wave_of(view))


def wave_of(view: DrainView) -> list[PodState]:
    """The pods whose turn it is."""
    number = min((state.pod.wave for state in view.pods), default=0)
    return [state for state in view.pods if state.pod.wave == number]
