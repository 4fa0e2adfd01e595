"""Leader election between several programs by the record in a Lease. No IO.

The rules of client-go, so that both may stand for the same Lease:

1. Who holds the record renews it. Each change of the record proves that its holder lives.
2. Others let the record's own number of seconds pass since they *saw* it change, by their
   own steady clock, and then take it. Times in the record are for people: clocks of two
   machines are never compared.
3. Each write names the version that was read, so of several takers one succeeds. They do not
   all ask at the same moment, and most of them see first that one was faster.
4. A leader counts from before its last successful renewal was sent, and stops by itself after
   ``deadline``, which is shorter than the lease: also while its request hangs.
5. Who stops gives the record back without a holder, and the next need not wait.
6. Whatever shows a newer record counts, a request of its own or a watch. With a watch a release
   is seen at once, and the seconds of rule 2 begin with the renewal; without one, both are seen
   up to a retry period later.

So two lead at once only where one steady clock runs half again as fast as another, or where
somebody deletes the Lease and a program that never saw it makes a new one.

Not ``kubernetes.aio.leaderelection``: it goes by the wall clock, which may be set, at both
ends; it writes local time as UTC and counts no transitions; a request of its own may outlast
the deadline; it never releases the Lease, and has no term number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import msgspec

from koord_kube.protocol.api import ApiError, Object

_JITTER = 0.2  # of the pause between requests, at most
_SPREAD = 0.2  # seconds, at most, in which those who waited take a free Lease


class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """The fields of a Lease's spec that elections use."""

    holder: str = msgspec.field(default="", name="holderIdentity")
    seconds: int = msgspec.field(default=0, name="leaseDurationSeconds")
    acquired: str = msgspec.field(default="", name="acquireTime")
    renewed: str = msgspec.field(default="", name="renewTime")
    transitions: int = msgspec.field(default=0, name="leaseTransitions")


def record_of(lease: Object) -> LeaderElectionRecord:
    """The election record of a Lease.

    Raises:
        ApiError: the record has another form.
    """
    spec = lease.get("spec") or {}
    try:
        return msgspec.convert(
            {k: v for k, v in spec.items() if v is not None}, LeaderElectionRecord
        )
    except (msgspec.ValidationError, AttributeError) as error:
        raise ApiError(f"leases: the record is not one of an election: {error}") from None


def with_record(lease: Object, record: LeaderElectionRecord) -> Object:
    """The Lease with this record, and all else that it had."""
    spec = {**(lease.get("spec") or {}), **msgspec.to_builtins(record)}
    return lease | {"spec": spec}


def released_record(record: LeaderElectionRecord, text: str) -> LeaderElectionRecord:
    """The record after a release, as client-go writes it: 0 seconds are not valid."""
    return LeaderElectionRecord("", 1, text, text, record.transitions)


@dataclass(frozen=True, slots=True)
class ElectionTiming:
    """In seconds: how long a record holds, when its holder gives up, and the pause between tries.

    As with client-go, 15, 10 and 2.
    """

    lease: int = 15
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.deadline > self.retry * (1 + _JITTER) > 0:
            raise ValueError(
                f"leader election with a lease of {self.lease} s, a renew deadline of "
                f"{self.deadline:g} s and a retry period of {self.retry:g} s; expected the first "
                f"to be the longest, and the second more than {1 + _JITTER} times the third"
            )


class LeaseAction(Enum):
    READ = "read"
    CREATE = "create"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class ElectionStep:
    """Next step of a candidate, ``wait`` seconds from now."""

    action: LeaseAction
    wait: float = 0.0


class Election:
    """One candidate. All ``now`` are seconds of one steady clock of its machine.

    ``identity`` has to be its own alone: one for each run of the program.
    """

    def __init__(self, identity: str, timing: ElectionTiming, chance: Callable[[], float]) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self.identity = identity
        self.timing = timing
        self._chance = chance
        self._seen: LeaderElectionRecord | None = None
        self._seen_at = 0.0
        self._version = 0
        self._has_waited = False
        self._until = float("-inf")
        self.stopped = False
        self.term = 0
        """The Lease's version at which it last began to lead; grows from leader to leader."""

    @property
    def leader(self) -> str:
        """The holder of the record as last seen; "" without one."""
        return self._seen.holder if self._seen else ""

    def seconds_left(self, now: float) -> float:
        """Return the seconds for which it leads without another renewal; 0: it does not lead."""
        return max(0.0, self._until - now)

    def leads(self, now: float) -> bool:
        return now < self._until

    def found(self, record: LeaderElectionRecord, version: int, now: float) -> ElectionStep:
        """The Lease was read, at this resource version."""
        self._version = version
        if record != self._seen:
            self._seen, self._seen_at = record, now
        if record.holder != self.identity:
            self._until = float("-inf")
        return self._when_free(LeaseAction.REPLACE, now)

    def observed(
        self, record: LeaderElectionRecord, version: int, now: float
    ) -> ElectionStep | None:
        """A watch showed the Lease; ``None`` where that is not news, and the last step stands.

        A watch may be behind: a leader that took its own past for the present would step down.
        """
        return self.found(record, version, now) if version > self._version else None

    def absent(self, now: float) -> ElectionStep:
        """The Lease is missing; a deleted one has to expire like one that is not renewed."""
        return self._when_free(LeaseAction.CREATE, now)

    def desired_record(self, text: str) -> LeaderElectionRecord:
        """The record to write, at a wall clock's time."""
        seen = self._seen
        if seen is not None and seen.holder == self.identity:
            return LeaderElectionRecord(
                self.identity, self.timing.lease, seen.acquired or text, text, seen.transitions
            )
        transitions = seen.transitions + 1 if seen else 0
        return LeaderElectionRecord(self.identity, self.timing.lease, text, text, transitions)

    def written(
        self, record: LeaderElectionRecord, version: int, asked_at: float, now: float
    ) -> ElectionStep:
        """The desired record was written, by a request that began at ``asked_at``."""
        self._seen, self._seen_at, self._version = record, now, version
        self._has_waited = False
        until = asked_at + self.timing.deadline
        if self.stopped or now >= until:
            return self._later(LeaseAction.READ)
        if not self.leads(now):
            self.term = version
        self._until = until
        return self._later(LeaseAction.REPLACE)

    def failed(self, retry_after: float = 0.0) -> ElectionStep:
        """A request was refused, or its result is unknown."""
        seconds = min(retry_after, self.timing.deadline / 2)
        step = self._later(LeaseAction.READ)
        return ElectionStep(step.action, max(step.wait, seconds))

    def stop(self) -> None:
        """Stop leading, for good."""
        self.stopped = True
        self._until = float("-inf")

    def _when_free(self, take: LeaseAction, now: float) -> ElectionStep:
        """Take the Lease, or look again later: no later than the moment it may be taken."""
        left = self._seconds_held(now)
        if left <= 0:
            # Who has waited may not be the only one that did.
            return ElectionStep(take, _SPREAD * self._chance() if self._has_waited else 0.0)
        self._has_waited = True
        later = self._later(LeaseAction.READ)
        return ElectionStep(later.action, min(later.wait, left))

    def _seconds_held(self, now: float) -> float:
        """Return the seconds for which somebody else still holds the Lease."""
        seen = self._seen
        if seen is None or seen.holder in ("", self.identity):
            return 0.0
        return self._seen_at + (seen.seconds or self.timing.lease) - now

    def _later(self, action: LeaseAction) -> ElectionStep:
        return ElectionStep(action, self.timing.retry * (1 + _JITTER * self._chance()))
