"""The state of each target between rounds, and what one round gathers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from koord_service.backoff import exponential

from koord_host.knobs.forms import Value
from koord_host.knobs.table import Knob
from koord_host.planning.arbiter import ArbitratedValue, ValueConflict
from koord_host.planning.desired_values import Priority, Target
from koord_host.planning.drift import DriftCounter
from koord_host.planning.ordering import BOUND_TOGETHER, ValueChange
from koord_host.planning.outcomes import Outcome, Result, Retry, retry

_FIRST_BACKOFF = 1.0


@dataclass(slots=True)
class TargetState:
    """The state of one target; times are monotonic.

    ``text`` is what the file held when it was last as decided, ``None``: never was.
    ``left`` is somebody else's text that stays. ``reported`` is the last problem that was reported.
    ``identity`` distinguishes the place that was read from a later one of its name.
    ``returning``: no owner wants it, and what was found is put back; the decision has it.
    """

    target: Target
    knob: Knob
    path: str
    decision: ArbitratedValue
    due: float = 0.0
    text: str | None = None
    left: str | None = None
    identity: int | None = None
    failures: int = 0
    reported: tuple[object, ...] = ()
    drift_counter: DriftCounter = field(default_factory=DriftCounter)
    returning: bool = False

    @property
    def strategy(self) -> str:
        """The strategies that had their way; "": none had."""
        owners = self.decision.owners
        return ", ".join(owner.name for owner in owners if owner.priority is Priority.STRATEGY)

    def begin_anew(self) -> None:
        """Reset the state: the place is gone, or another place has its name now."""
        self.text = self.left = self.identity = None
        self.drift_counter = DriftCounter()


@dataclass(slots=True)
class RoundState:
    """State and results of one round.

    ``texts`` are files as they were read before anything was written, ``after`` what
    targets had after the last write that can have moved them. ``identities`` are those
    of directories. ``notes`` are words about drift, and whether they are an alert.
    ``lost`` could not be remembered, and are not written. ``owners`` are targets that are
    as a strategy wants them without a write, or no longer.
    """

    now: float
    results: list[Result] = field(default_factory=list)
    conflicts: list[ValueConflict] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    after: dict[Target, str] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    changes: dict[Target, ValueChange] = field(default_factory=dict)
    notes: dict[Target, tuple[str, bool]] = field(default_factory=dict)
    errors: dict[Target, OSError] = field(default_factory=dict)
    lost: set[Target] = field(default_factory=set)
    written: list[tuple[Target, str]] = field(default_factory=list)
    owners: dict[Target, str] = field(default_factory=dict)


class TargetStates(dict[Target, TargetState]):
    """All targets with a decision, and when each is to be read again."""

    def __init__(self, refresh_seconds: float) -> None:
        super().__init__()
        self._refresh_seconds = refresh_seconds
        self._due: list[tuple[float, Target]] = []

    def is_due(self, now: float) -> bool:
        """True if anything may be due; costs next to nothing."""
        return bool(self._due) and self._due[0][0] <= now

    def take_due(self, now: float) -> list[Target]:
        """Take the targets that are due by now."""
        due = []
        while self.is_due(now):
            at, target = heapq.heappop(self._due)
            state = self.get(target)
            # It was read in the meantime, and is due later.
            if state is not None and state.due == at:
                due.append(target)
        return due

    def settle(
        self,
        state: TargetState,
        outcome: Outcome,
        running: RoundState,
        old: Value | None = None,
        new: Value | None = None,
        *,
        reason: str = "",
        code: int = 0,
        alert: bool = False,
        reported: bool = False,
        delay: float | None = None,
    ) -> None:
        """Report a target's outcome, a failure only once, and schedule the next check."""
        delay = self._refresh_seconds if delay is None else delay
        news = outcome is Outcome.WRITTEN
        if outcome is Outcome.REFUSED and retry(code) is Retry.SOON:
            state.failures += 1
            delay = exponential(_FIRST_BACKOFF, delay, state.failures)
        if outcome in (Outcome.WRITTEN, Outcome.UNCHANGED):
            state.failures, state.reported = 0, ()
        elif outcome is not Outcome.GONE:
            problem = (outcome, code)
            news = problem != state.reported and not reported
            state.reported = problem
        state.due = running.now + delay
        heapq.heappush(self._due, (state.due, state.target))
        decision = state.decision
        running.results.append(
            Result(
                state.target,
                outcome,
                old,
                old if outcome is Outcome.UNCHANGED else new,
                decision.owner,
                decision.why,
                decision.pod,
                reason,
                code,
                news,
                alert,
            )
        )


class PinnedTargets:
    """The targets that are not to be moved for another's sake.

    Those that some owner wants; and beside one that returns to what was found all others: they
    were as they are then, or return too.
    """

    def __init__(self, states: TargetStates) -> None:
        self._states = states

    def __contains__(self, target: object) -> bool:
        return target in self._states or (isinstance(target, Target) and self._rollback(target))

    def _rollback(self, target: Target) -> bool:
        beside = (Target(target.place, name) for name in BOUND_TOGETHER.get(target.knob, ()))
        return any(
            neighbour in self._states and self._states[neighbour].returning for neighbour in beside
        )
