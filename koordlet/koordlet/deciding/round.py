"""One round: every strategy that is due is asked, and what all of them want is gathered. No IO.

A strategy that raises, or takes longer than its budget, is skipped for that round: what it
wanted before stands, nothing new of it is done, and it is counted and shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from koord_host.wishes import Target, Wish
from koord_model.node_slo import NodeSLO

from koordlet.deciding.contract import NOTHING, Claim, Decision, Mode, Notice, Plan, Signal, View
from koordlet.deciding.contract import Strategy as Strategy
from koordlet.deciding.settings import Asked, asked, unknown

BUDGET_SECONDS = 0.1
"""Of one strategy in one round: all of koordlet's own together take a fifth of it."""

SIGNAL_SECONDS = 60.0
"""How long the last signals of a strategy count that has failed since."""

QUIET_SECONDS = 600.0
"""Trouble that comes and goes is told again only after so long without it."""


class AbandonedError(Exception):
    """Nobody waits for this round any more; another thread goes on with the strategies."""


@dataclass(frozen=True, slots=True)
class StrategyState:
    """How a strategy fares, for ``/metrics`` and people.

    ``reason`` says why it is off, or why its last round was skipped; "" while all is well.
    ``seconds`` is what its last round took, ``decided_at`` when that was (seconds since the
    epoch, 0 before), ``decisions`` and ``wishes`` how many it has now.
    """

    name: str
    gate: str
    mode: Mode
    enabled: bool
    interval: float = 0.0
    reason: str = ""
    rounds: int = 0
    failures: int = 0
    overruns: int = 0
    seconds: float = 0.0
    decided_at: float = 0.0
    decisions: int = 0
    wishes: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """What a round came to: the plans of strategies that are not off, and who was asked.

    What is done once (claims, deeds, notices) counts only of those ``asked``; wishes and
    decisions stand until the next plan. ``problems`` are lines for people, each new.
    """

    plans: Mapping[str, tuple[Mode, Plan]]
    asked: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def done(self) -> Iterator[tuple[str, Plan]]:
        """The plans that are carried out, not only shown."""
        return ((name, plan) for name, (mode, plan) in self.plans.items() if mode is Mode.ON)

    @property
    def decisions(self) -> list[tuple[str, Mode, Decision]]:
        """All that stands decided, with the strategy and its mode."""
        return [
            (name, mode, decision)
            for name, (mode, plan) in self.plans.items()
            for decision in plan.decisions
        ]

    @property
    def claims(self) -> list[tuple[str, Mode, Claim]]:
        """What is to be freed."""
        return [(name, mode, claim) for name, mode, plan in self._asked() for claim in plan.claims]

    @property
    def notices(self) -> list[tuple[str, Mode, Notice]]:
        """What people should know of pods."""
        return [(name, mode, one) for name, mode, plan in self._asked() for one in plan.notices]

    @property
    def deeds(self) -> list[tuple[str, tuple[Wish, ...]]]:
        """What is to be written once."""
        return [
            (name, plan.deeds)
            for name, mode, plan in self._asked()
            if mode is Mode.ON and plan.deeds
        ]

    @property
    def signals(self) -> Mapping[str, tuple[Signal, ...]]:
        """Numbers that strategies found out, by strategy; a shadow's too are only shown."""
        return {name: plan.signals for name, (_, plan) in self.plans.items() if plan.signals}

    def _asked(self) -> Iterator[tuple[str, Mode, Plan]]:
        return ((name, *self.plans[name]) for name in self.plans if name in self.asked)


@dataclass(slots=True)
class _Kept:
    """What is known of a strategy between two rounds."""

    strategy: Strategy
    state: StrategyState
    plan: Plan = NOTHING
    due: float = float("-inf")
    asked: Asked | None = None
    read_of: NodeSLO | None = None
    hanging: bool = False
    told: dict[str, float] = field(default_factory=dict)
    """When each trouble was there last, by the steady clock."""
    planned: float = float("-inf")
    """When it made the plan that stands, by the steady clock."""

    def speaks(self, steady: float) -> bool:
        """Whether its signals may be acted on: not those of one that fails for a while."""
        return not self.state.reason or steady - self.planned < SIGNAL_SECONDS


class Rounds:
    """Asks strategies, round after round.

    ``clock`` is CPU seconds of the calling thread: a strategy is not to pay for what runs
    beside it. ``shown_only``: all that are on are shadows, on a node where nothing is written.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        clock: Callable[[], float],
        *,
        budget_seconds: float = BUDGET_SECONDS,
        shown_only: bool = False,
    ) -> None:
        self._kept = {one.name: _Kept(one, _begun(one)) for one in strategies}
        self._clock = clock
        self._budget = budget_seconds
        self._shown_only = shown_only
        self._slo: NodeSLO | None = None
        self.signals: Mapping[str, tuple[Signal, ...]] = {}
        """Those of the last round: what the next view is to hold."""
        self.running = ""
        """The strategy that is being asked now."""
        self._coming_back = threading.Lock()
        """A strategy is given up before it comes back, or not at all."""

    def states(self) -> tuple[StrategyState, ...]:
        """How each strategy fares."""
        return tuple(one.state for one in self._kept.values())

    @property
    def next_due(self) -> float:
        """When a strategy is due next, by the steady clock."""
        return min((one.due for one in self._kept.values()), default=float("inf"))

    def give_up(self, name: str, reason: str) -> bool:
        """Ask a strategy no more until it comes back; not if it just has, which is said."""
        kept = self._kept[name]
        with self._coming_back:
            if self.running != name:
                return False
            kept.hanging = True
            kept.state = replace(kept.state, reason=reason, overruns=kept.state.overruns + 1)
        return True

    def decide(self, view: View) -> Round:
        """Ask all that are due.

        Raises:
            AbandonedError: a strategy came back after it was given up.
        """
        problems = self._look_at(view.slo)
        named = frozenset(
            name for name, kept in self._kept.items() if self._ask(kept, view, problems)
        )
        plans = {
            name: (kept.state.mode, kept.plan)
            for name, kept in self._kept.items()
            if kept.state.mode is not Mode.OFF
        }
        found = Round(plans, named, tuple(problems))
        # A shadow is seen, but nobody acts on it; unless all are shadows. Nor on what is old.
        done = {name for name, _ in found.done() if self._kept[name].speaks(view.steady)}
        self.signals = {
            name: signals
            for name, signals in found.signals.items()
            if name in done or (self._shown_only and self._kept[name].speaks(view.steady))
        }
        return found

    def _look_at(self, slo: NodeSLO) -> list[str]:
        if slo is self._slo:
            return []
        self._slo = slo
        return list(unknown(self._kept, slo))

    def _ask(self, kept: _Kept, view: View, problems: list[str]) -> bool:
        """Ask one strategy if it is due; whether it has a new plan."""
        if kept.hanging:
            return False
        changed = self._settle(kept, view.slo, problems)
        if kept.asked is None or kept.asked.mode is Mode.OFF:
            return False
        if not changed and view.steady < kept.due:
            return False
        kept.due = _next(kept.due, kept.strategy.interval, view.steady)
        plan, reason, seconds = self._plan(kept, kept.asked.settings, view)
        if self._comes_late(kept):
            raise AbandonedError(kept.strategy.name)
        state = replace(
            kept.state,
            rounds=kept.state.rounds + 1,
            seconds=seconds,
            decided_at=view.at,
            reason=reason,
        )
        if plan is None:
            if view.steady - kept.told.get(reason, float("-inf")) >= QUIET_SECONDS:
                problems.append(f"{kept.strategy.name} {reason}")
            kept.told[reason] = view.steady
            overran = seconds > self._budget
            kept.state = replace(
                state,
                failures=state.failures + (not overran),
                overruns=state.overruns + overran,
            )
            return False
        kept.planned = view.steady
        kept.plan = replace(plan, wishes=same_wishes(kept.plan.wishes, plan.wishes))
        kept.state = replace(
            state, decisions=len(plan.decisions), wishes=len(plan.wishes), reason=""
        )
        return True

    def _settle(self, kept: _Kept, slo: NodeSLO, problems: list[str]) -> bool:
        """Read what is asked of a strategy, where the NodeSLO has changed; whether that has."""
        if kept.read_of is slo:
            return False
        kept.read_of = slo
        try:
            found = asked(kept.strategy, slo)
        except Exception as error:
            # Others' code: as if it failed in a round, with what was asked before.
            reason = f"cannot read its settings: {_words(error)}"
            kept.state = replace(kept.state, failures=kept.state.failures + 1, reason=reason)
            problems.append(f"{kept.strategy.name} {reason}")
            return False
        if self._shown_only and found.mode is Mode.ON:
            found = replace(found, mode=Mode.SHADOW)
        before, kept.asked = kept.asked, found
        problems.extend(line for line in found.ignored if not before or line not in before.ignored)
        if before is not None and (before.mode, before.settings) == (found.mode, found.settings):
            return False
        kept.state = replace(kept.state, mode=found.mode, reason="")
        if found.mode is Mode.OFF:
            kept.plan = NOTHING
            reason = "switched off by the NodeSLO"
            kept.state = replace(kept.state, reason=reason, decisions=0, wishes=0)
        return True

    def _plan(self, kept: _Kept, settings: Any, view: View) -> tuple[Plan | None, str, float]:
        """Its plan, or why there is none, and the CPU seconds that it took."""
        self.running = kept.strategy.name
        started = self._clock()
        try:
            found: object = kept.strategy.plan(view, settings, kept.plan.memory)
            reason = "" if isinstance(found, Plan) else f"failed: its plan is {_kind(found)}"
        except Exception as error:
            found, reason = None, f"failed: {_words(error)}"
        seconds = self._clock() - started
        if seconds > self._budget:
            found, reason = None, f"took more than {self._budget * 1000:.0f} ms of CPU"
        return found if isinstance(found, Plan) else None, reason, seconds

    def _comes_late(self, kept: _Kept) -> bool:
        """Whether a strategy was given up meanwhile; from now on it is asked again.

        Whatever held it up, a kernel file or a machine that stood still, is over.
        """
        with self._coming_back:
            if self.running == kept.strategy.name:
                # Another thread may be at another strategy meanwhile.
                self.running = ""
            late, kept.hanging = kept.hanging, False
        return late


def same_wishes(before: tuple[Wish, ...], now: tuple[Wish, ...]) -> tuple[Wish, ...]:
    """The wishes of now; where a value stays, so does the wish with the reason it had.

    The journal so tells why a value was set when it was, and nothing is compared anew.
    """
    known: dict[tuple[Target, Any], Wish] = {(one.target, one.value): one for one in before}
    kept = tuple(known.get((one.target, one.value), one) for one in now)
    same = len(kept) == len(before) and all(
        one is other for one, other in zip(kept, before, strict=True)
    )
    return before if same else kept


def _begun(strategy: Strategy) -> StrategyState:
    return StrategyState(strategy.name, strategy.gate, Mode.ON, True, strategy.interval)


def _next(due: float, interval: float, now: float) -> float:
    """In step with the last time; rounds that were missed are not made up for."""
    return due + interval if due + interval > now else now + interval


def _kind(found: object) -> str:
    return f"a {type(found).__name__}"


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
