"""One round: run every strategy that is due, and collect their plans. No IO.

A strategy that raises or exceeds its budget is skipped for that round: its last plan stays in
force, and the failure is counted and reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.settings import StrategySettings, find_unknown, parse_settings
from koordlet.qos_manager.core.strategy import (
    NOTHING,
    Decision,
    EvictionClaim,
    Plan,
    PodNotice,
    StrategyMode,
    StrategySignal,
    StrategyView,
)
from koordlet.qos_manager.core.strategy import Strategy as Strategy

BUDGET_SECONDS = 0.1
"""For one strategy in one round; koordlet's own strategies together use a fifth of it."""

SIGNAL_SECONDS = 60.0
"""How long the last signals of a failing strategy remain valid."""

QUIET_SECONDS = 600.0
"""A recurring failure is logged again only after it was absent for this long."""


class AbandonedError(Exception):
    """The round was abandoned; another thread runs the strategies."""


@dataclass(frozen=True, slots=True)
class StrategyState:
    """The state of a strategy, for ``/metrics`` and people.

    ``reason`` says why it is off, or why its last round was skipped; "" if neither is so.
    ``seconds`` is what its last round took, ``decided_at`` when that was (seconds since the
    epoch, 0 before), ``decisions`` and ``wishes`` (desired values) how many it has now.
    """

    name: str
    gate: str
    mode: StrategyMode
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
class RoundPlans:
    """The result of a round: the plans of strategies that are not off, and which strategies ran.

    One-shot parts (claims, deeds, notices) count only for those ``planned_now``; desired values
    and decisions hold until the next plan. ``problems`` are new lines to log.
    """

    plans: Mapping[str, tuple[StrategyMode, Plan]]
    planned_now: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def done(self) -> Iterator[tuple[str, Plan]]:
        """The plans that are carried out, not only shown."""
        return (
            (name, plan) for name, (mode, plan) in self.plans.items() if mode is StrategyMode.ON
        )

    @property
    def decisions(self) -> list[tuple[str, StrategyMode, Decision]]:
        """All current decisions, with the strategy and its mode."""
        return [
            (name, mode, decision)
            for name, (mode, plan) in self.plans.items()
            for decision in plan.decisions
        ]

    @property
    def claims(self) -> list[tuple[str, StrategyMode, EvictionClaim]]:
        """What is to be freed."""
        return [
            (name, mode, claim) for name, mode, plan in self._planned_now() for claim in plan.claims
        ]

    @property
    def notices(self) -> list[tuple[str, StrategyMode, PodNotice]]:
        """Events to write about pods."""
        return [
            (name, mode, one) for name, mode, plan in self._planned_now() for one in plan.notices
        ]

    @property
    def deeds(self) -> list[tuple[str, tuple[DesiredValue, ...]]]:
        """What is to be written once."""
        return [
            (name, plan.deeds)
            for name, mode, plan in self._planned_now()
            if mode is StrategyMode.ON and plan.deeds
        ]

    @property
    def signals(self) -> Mapping[str, tuple[StrategySignal, ...]]:
        """The signals by strategy; those of a strategy in shadow mode are only shown."""
        return {name: plan.signals for name, (_, plan) in self.plans.items() if plan.signals}

    def _planned_now(self) -> Iterator[tuple[str, StrategyMode, Plan]]:
        return ((name, *self.plans[name]) for name in self.plans if name in self.planned_now)


@dataclass(slots=True)
class _StrategyRecord:
    """What is known of a strategy between two rounds."""

    strategy: Strategy
    state: StrategyState
    plan: Plan = NOTHING
    due: float = float("-inf")
    settings: StrategySettings | None = None
    read_of: NodeSLO | None = None
    hanging: bool = False
    logged_at: dict[str, float] = field(default_factory=dict)
    """When each failure last occurred, by the steady clock."""
    planned: float = float("-inf")
    """When it made the plan that stands, by the steady clock."""

    def has_valid_signals(self, steady: float) -> bool:
        """Whether other strategies may use its signals: not if it has failed for a while."""
        return not self.state.reason or steady - self.planned < SIGNAL_SECONDS


class StrategyRunner:
    """Runs strategies, round after round.

    ``clock`` is CPU seconds of the calling thread: other load on the node must not exhaust a
    strategy's budget. ``shown_only`` runs all in shadow mode, on a node where nothing is written.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        clock: Callable[[], float],
        *,
        budget_seconds: float = BUDGET_SECONDS,
        shown_only: bool = False,
    ) -> None:
        self._records = {one.name: _StrategyRecord(one, _initial_state(one)) for one in strategies}
        self._clock = clock
        self._budget = budget_seconds
        self._shown_only = shown_only
        self._slo: NodeSLO | None = None
        self.signals: Mapping[str, tuple[StrategySignal, ...]] = {}
        """Those of the last round: what the next view is to hold."""
        self.running = ""
        """The strategy that runs now."""
        self._return_lock = threading.Lock()
        """Orders ``give_up`` and the return of a strategy."""

    def states(self) -> tuple[StrategyState, ...]:
        """The state of each strategy."""
        return tuple(one.state for one in self._records.values())

    @property
    def next_due(self) -> float:
        """When a strategy is due next, by the steady clock."""
        return min((one.due for one in self._records.values()), default=float("inf"))

    def give_up(self, name: str, reason: str) -> bool:
        """Skip a strategy until it returns; return whether it still runs."""
        record = self._records[name]
        with self._return_lock:
            if self.running != name:
                return False
            record.hanging = True
            record.state = replace(record.state, reason=reason, overruns=record.state.overruns + 1)
        return True

    def decide(self, view: StrategyView) -> RoundPlans:
        """Run all that are due.

        Raises:
            AbandonedError: a strategy returned after it was given up.
        """
        problems = self._find_unknown(view.slo)
        named = frozenset(
            name
            for name, record in self._records.items()
            if self._run_if_due(record, view, problems)
        )
        plans = {
            name: (record.state.mode, record.plan)
            for name, record in self._records.items()
            if record.state.mode is not StrategyMode.OFF
        }
        found = RoundPlans(plans, named, tuple(problems))
        # Other strategies use neither old signals nor, unless all are shadows, a shadow's.
        done = {
            name for name, _ in found.done() if self._records[name].has_valid_signals(view.steady)
        }
        self.signals = {
            name: signals
            for name, signals in found.signals.items()
            if name in done
            or (self._shown_only and self._records[name].has_valid_signals(view.steady))
        }
        return found

    def _find_unknown(self, slo: NodeSLO) -> list[str]:
        if slo is self._slo:
            return []
        self._slo = slo
        return list(find_unknown(self._records, slo))

    def _run_if_due(self, record: _StrategyRecord, view: StrategyView, problems: list[str]) -> bool:
        """Run one strategy if it is due; return whether it has a new plan."""
        changed = not record.hanging and self._update_settings(record, view.slo, problems)
        if not changed and view.steady < record.due:
            return False
        # Also if it does not run: its settings are looked at again no earlier.
        record.due = _next(record.due, record.strategy.interval, view.steady)
        if record.hanging or record.settings is None or record.settings.mode is StrategyMode.OFF:
            return False
        plan, reason, seconds = self._plan(record, record.settings.settings, view)
        if self._was_abandoned(record):
            raise AbandonedError(record.strategy.name)
        state = replace(
            record.state,
            rounds=record.state.rounds + 1,
            seconds=seconds,
            decided_at=view.at,
            reason=reason,
        )
        if plan is None:
            if view.steady - record.logged_at.get(reason, float("-inf")) >= QUIET_SECONDS:
                problems.append(f"{record.strategy.name} {reason}")
            record.logged_at[reason] = view.steady
            overran = seconds > self._budget
            record.state = replace(
                state,
                failures=state.failures + (not overran),
                overruns=state.overruns + overran,
            )
            return False
        record.planned = view.steady
        record.plan = replace(plan, desired=reuse_unchanged(record.plan.desired, plan.desired))
        record.state = replace(
            state, decisions=len(plan.decisions), wishes=len(plan.desired), reason=""
        )
        return True

    def _update_settings(self, record: _StrategyRecord, slo: NodeSLO, problems: list[str]) -> bool:
        """Read the settings again if the NodeSLO has changed; return whether they changed."""
        if record.read_of is slo:
            return False
        record.read_of = slo
        try:
            found = parse_settings(record.strategy, slo)
        except Exception as error:
            # Third-party code: count it as a failed round and keep the old settings.
            reason = f"cannot read its settings: {_describe(error)}"
            record.state = replace(record.state, failures=record.state.failures + 1, reason=reason)
            problems.append(f"{record.strategy.name} {reason}")
            return False
        if self._shown_only and found.mode is StrategyMode.ON:
            found = replace(found, mode=StrategyMode.SHADOW)
        before, record.settings = record.settings, found
        problems.extend(line for line in found.ignored if not before or line not in before.ignored)
        if before is not None and (before.mode, before.settings) == (found.mode, found.settings):
            return False
        record.state = replace(record.state, mode=found.mode, reason="")
        if found.mode is StrategyMode.OFF:
            record.plan = NOTHING
            reason = "switched off by the NodeSLO"
            record.state = replace(record.state, reason=reason, decisions=0, wishes=0)
        return True

    def _plan(
        self, record: _StrategyRecord, settings: Any, view: StrategyView
    ) -> tuple[Plan | None, str, float]:
        """Return its plan or the reason why there is none, and the CPU seconds it took."""
        self.running = record.strategy.name
        started = self._clock()
        try:
            found: object = record.strategy.plan(view, settings, record.plan.memory)
            reason = "" if isinstance(found, Plan) else f"failed: its plan is {_kind(found)}"
        except Exception as error:
            found, reason = None, f"failed: {_describe(error)}"
        seconds = self._clock() - started
        if seconds > self._budget:
            found, reason = None, f"took more than {self._budget * 1000:.0f} ms of CPU"
        return found if isinstance(found, Plan) else None, reason, seconds

    def _was_abandoned(self, record: _StrategyRecord) -> bool:
        """Whether a strategy was given up meanwhile; it runs again from now on.

        Its return shows that the cause (a kernel file, a suspended machine) is gone.
        """
        with self._return_lock:
            if self.running == record.strategy.name:
                # Another thread may run another strategy meanwhile.
                self.running = ""
            late, record.hanging = record.hanging, False
        return late


def reuse_unchanged(
    before: tuple[DesiredValue, ...], now: tuple[DesiredValue, ...]
) -> tuple[DesiredValue, ...]:
    """The desired values of now, with the old object where a value is unchanged.

    So the journal keeps the reason for which a value was set, and comparisons stay cheap.
    """
    known: dict[tuple[Target, Any], DesiredValue] = {(one.target, one.value): one for one in before}
    record = tuple(known.get((one.target, one.value), one) for one in now)
    same = len(record) == len(before) and all(
        one is other for one, other in zip(record, before, strict=True)
    )
    return before if same else record


def _initial_state(strategy: Strategy) -> StrategyState:
    return StrategyState(strategy.name, strategy.gate, StrategyMode.ON, True, strategy.interval)


def _next(due: float, interval: float, now: float) -> float:
    """The next multiple of the interval; missed rounds are not repeated."""
    return due + interval if due + interval > now else now + interval


def _kind(found: object) -> str:
    return f"a {type(found).__name__}"


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
