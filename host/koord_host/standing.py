"""How things stand with each target between rounds, and what one round gathers."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from koord_host.arbiter import Conflict, Decision
from koord_host.forms import Value
from koord_host.knobs import Knob
from koord_host.ordering import BOUND_TOGETHER, Change
from koord_host.outcomes import Outcome, Result, Retry, retry
from koord_host.strangers import Strikes
from koord_host.wishes import Priority, Target

_FIRST_BACKOFF = 1.0


@dataclass(slots=True)
class Standing:
    """How things stand with one target; times are monotonic.

    ``text`` is what the file held when it was last as decided, ``None``: never was.
    ``left`` is a stranger's text that stays. ``told`` is the last trouble told.
    ``identity`` tells the place that was looked at from a later one of its name.
    ``returning``: nobody wishes it, and what was found is put back; the decision has it.
    """

    target: Target
    knob: Knob
    path: str
    decision: Decision
    due: float = 0.0
    text: str | None = None
    left: str | None = None
    identity: int | None = None
    backoff: float = 0.0
    told: tuple[object, ...] = ()
    strikes: Strikes = field(default_factory=Strikes)
    returning: bool = False

    @property
    def strategy(self) -> str:
        """The strategies that had their way; "": none had."""
        owners = self.decision.owners
        return ", ".join(one.name for one in owners if one.priority is Priority.STRATEGY)

    def begin_anew(self) -> None:
        """The place is gone, or another has its name: nobody has touched that one yet."""
        self.text = self.left = self.identity = None
        self.strikes = Strikes()


@dataclass(slots=True)
class Running:
    """What one round gathers.

    ``texts`` are files as they were read before anything was written, ``after`` what
    targets had after the last write that can have moved them. ``identities`` are those
    of directories. ``notes`` are words about strangers, and whether they are an alert.
    ``lost`` could not be remembered, and are not written. ``owed`` are targets that are
    as a strategy wants them without a write, or no longer.
    """

    now: float
    results: list[Result] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    after: dict[Target, str] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    changes: dict[Target, Change] = field(default_factory=dict)
    notes: dict[Target, tuple[str, bool]] = field(default_factory=dict)
    errors: dict[Target, OSError] = field(default_factory=dict)
    lost: set[Target] = field(default_factory=set)
    written: list[tuple[Target, str]] = field(default_factory=list)
    owed: dict[Target, str] = field(default_factory=dict)


class Standings(dict[Target, Standing]):
    """All targets with a decision, and when each is to be looked at again."""

    def __init__(self, refresh_seconds: float) -> None:
        super().__init__()
        self._refresh_seconds = refresh_seconds
        self._due: list[tuple[float, Target]] = []

    def is_due(self, now: float) -> bool:
        """Whether anything may be due; costs next to nothing."""
        return bool(self._due) and self._due[0][0] <= now

    def take_due(self, now: float) -> list[Target]:
        """What is due by time."""
        due = []
        while self.is_due(now):
            at, target = heapq.heappop(self._due)
            standing = self.get(target)
            # Another look in the meantime has put it off.
            if standing is not None and standing.due == at:
                due.append(target)
        return due

    def settle(
        self,
        standing: Standing,
        outcome: Outcome,
        running: Running,
        old: Value | None = None,
        new: Value | None = None,
        *,
        reason: str = "",
        code: int = 0,
        alert: bool = False,
        told: bool = False,
    ) -> None:
        """Tell a target's outcome, once if it is trouble, and say when to look again."""
        delay = self._refresh_seconds
        news = outcome is Outcome.WRITTEN
        if outcome is Outcome.REFUSED and retry(code) is Retry.SOON:
            standing.backoff = min(max(standing.backoff * 2, _FIRST_BACKOFF), delay)
            delay = standing.backoff
        if outcome in (Outcome.WRITTEN, Outcome.UNCHANGED):
            standing.backoff, standing.told = 0.0, ()
        elif outcome is not Outcome.GONE:
            trouble = (outcome, code)
            news = trouble != standing.told and not told
            standing.told = trouble
        standing.due = running.now + delay
        heapq.heappush(self._due, (standing.due, standing.target))
        decision = standing.decision
        running.results.append(
            Result(
                standing.target,
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


class Held:
    """The targets that are not to be moved for another's sake.

    Those somebody wishes; and beside one that returns to what was found all others: they
    were as they are then, or return too.
    """

    def __init__(self, standings: Standings) -> None:
        self._standings = standings

    def __contains__(self, target: object) -> bool:
        return target in self._standings or (isinstance(target, Target) and self._returns(target))

    def _returns(self, target: Target) -> bool:
        beside = (Target(target.place, name) for name in BOUND_TOGETHER.get(target.knob, ()))
        return any(one in self._standings and self._standings[one].returning for one in beside)
