"""One round: run every strategy that is due, and collect their plans. No IO.

A strategy that raises is skipped for that round: its last plan stays in force, and the failure is
counted and reported. The plan of one that exceeds its budget counts, and it runs less often: what
it has found out would only be found out again, as long as the node is too slow for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.round_plans import RoundPlans, StrategyState
from koordlet.qos_manager.core.settings import StrategySettings, find_unknown, parse_settings
from koordlet.qos_manager.core.strategy import (
    NOTHING,
    Plan,
    Strategy,
    StrategyMode,
    StrategySignal,
    StrategyView,
)

BUDGET_SECONDS = 0.1
"""For one strategy in one round; koordlet's own strategies together use a fifth of it."""

MOST_OF_A_CPU = 0.1
"""For one strategy whose rounds exceed the budget."""

SIGNAL_SECONDS = 60.0
"""Time for which the last signals of a failing strategy remain valid."""

QUIET_SECONDS = 600.0
"""A recurring failure is logged again only after it was absent for this long."""


class AbandonedError(Exception):
    """A strategy returned after it was given up: another round runs the strategies.

    It may have come with its ``plan``.
    """

    def __init__(self, name: str, plan: Plan | None) -> None:
        super().__init__(name)
        self.name = name
        self.plan = plan


@dataclass(slots=True)
class StrategyRecord:
    """State of a strategy between two rounds."""

    strategy: Strategy
    state: StrategyState
    plan: Plan = NOTHING
    due: float = float("-inf")
    settings: StrategySettings | None = None
    read_of: NodeSLO | None = None
    logged_at: dict[str, float] = field(default_factory=dict)
    """Last time of each failure by the steady clock."""
    planned: float = float("-inf")
    """Time of the plan in force by the steady clock."""

    def has_valid_signals(self, steady: float) -> bool:
        """True if other strategies may use its signals: not if it has failed for a while."""
        return not self.state.reason or steady - self.planned < SIGNAL_SECONDS

    def is_news(self, reason: str, steady: float) -> bool:
        """Note why it was skipped or runs less often; return whether that is to be logged."""
        before, self.logged_at[reason] = self.logged_at.get(reason, float("-inf")), steady
        return steady - before >= QUIET_SECONDS

    def copy(self) -> StrategyRecord:
        """One to change without changing this."""
        return replace(self, logged_at=dict(self.logged_at))


class StrategyRound:
    """One round on copies of the ``records``: nobody sees a part of what it does to them.

    One thread calls ``run``. Meanwhile another may read ``running`` and call ``give_up``, and
    nothing else. ``hanging`` are strategies to skip; the rest is as ``StrategyRunner`` has it.
    """

    def __init__(
        self,
        records: Mapping[str, StrategyRecord],
        hanging: frozenset[str],
        slo: NodeSLO | None,
        clock: Callable[[], float],
        *,
        budget_seconds: float = BUDGET_SECONDS,
        shown_only: bool = False,
    ) -> None:
        self.records = {name: record.copy() for name, record in records.items()}
        self.slo = slo
        """The NodeSLO of this round, or before it of the last."""
        self.signals: Mapping[str, tuple[StrategySignal, ...]] = {}
        """Once it has run: what the next view is to hold."""
        self.running = ""
        """The strategy that runs now."""
        self._hanging = hanging
        self._clock = clock
        self._budget = budget_seconds
        self._shown_only = shown_only
        self._given_up = ""

    def give_up(self, name: str) -> bool:
        """Have ``run`` end once a strategy returns; return whether it still runs.

        This writes ``_given_up`` and then reads ``running``; ``run`` writes ``running`` and then
        reads ``_given_up``. So at least one of both sees the other: after ``True`` no other
        strategy begins in this round.
        """
        self._given_up = name
        return self.running == name

    def run(self, view: StrategyView) -> RoundPlans:
        """Run all that are due.

        Raises:
            AbandonedError: a strategy returned after it was given up.
        """
        problems = self._find_unknown(view.slo)
        named = set()
        for name, record in self.records.items():
            if self._run_if_due(record, view, problems):
                named.add(name)
                # The next one sees it: no two claim the same CPU.
                view = _with_claim(view, record)
        plans = {
            name: (record.state.mode, record.plan)
            for name, record in self.records.items()
            if record.state.mode is not StrategyMode.OFF
        }
        found = RoundPlans(plans, frozenset(named), tuple(problems))
        # Other strategies use neither old signals nor, unless all are shadows, a shadow's.
        done = {
            name for name, _ in found.done() if self.records[name].has_valid_signals(view.steady)
        }
        self.signals = {
            name: signals
            for name, signals in found.signals.items()
            if name in done
            or (self._shown_only and self.records[name].has_valid_signals(view.steady))
        }
        return found

    def _find_unknown(self, slo: NodeSLO) -> list[str]:
        if slo is self.slo:
            return []
        self.slo = slo
        return list(find_unknown(self.records, slo))

    def _run_if_due(self, record: StrategyRecord, view: StrategyView, problems: list[str]) -> bool:
        """Run one strategy if it is due; return whether it has a new plan."""
        hangs = record.strategy.name in self._hanging
        changed = not hangs and self._update_settings(record, view.slo, problems)
        if not changed and view.steady < record.due:
            return False
        # Also if it does not run: its settings are looked at again no earlier.
        record.due = _next(record.due, record.strategy.interval, view.steady)
        if hangs or record.settings is None or record.settings.mode is StrategyMode.OFF:
            return False
        plan, reason, seconds = self._plan(record, record.settings.settings, view)
        overran = seconds > self._budget
        if overran:
            reason = (
                reason or f"took more than {self._budget * 1000:.0f} ms of CPU, runs less often"
            )
            record.due = max(record.due, view.steady + seconds / MOST_OF_A_CPU)
        record.state = replace(
            record.state,
            rounds=record.state.rounds + 1,
            failures=record.state.failures + (plan is None),
            overruns=record.state.overruns + overran,
            seconds=seconds,
            decided_at=view.at,
            reason=reason,
        )
        if reason and record.is_news(reason, view.steady):
            problems.append(f"{record.strategy.name} {reason}")
        if plan is None:
            return False
        record.planned = view.steady
        record.plan = replace(plan, desired=reuse_unchanged(record.plan.desired, plan.desired))
        record.state = replace(
            record.state, decisions=len(plan.decisions), desired=len(plan.desired)
        )
        return True

    def _update_settings(self, record: StrategyRecord, slo: NodeSLO, problems: list[str]) -> bool:
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
            record.state = replace(record.state, reason=reason, decisions=0, desired=0)
        return True

    def _plan(
        self, record: StrategyRecord, settings: Any, view: StrategyView
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
        # In this order; see ``give_up``.
        self.running = ""
        plan = found if isinstance(found, Plan) else None
        if self._given_up == record.strategy.name:
            raise AbandonedError(record.strategy.name, plan)
        return plan, reason, seconds


def reuse_unchanged(
    before: tuple[DesiredValue, ...], now: tuple[DesiredValue, ...]
) -> tuple[DesiredValue, ...]:
    """The desired values of now, with the old object where a value is unchanged.

    So the journal keeps the reason for which a value was set, and comparisons stay cheap.
    """
    known: dict[tuple[Target, Any], DesiredValue] = {
        (desired.target, desired.value): desired for desired in before
    }
    record = tuple(known.get((desired.target, desired.value), desired) for desired in now)
    same = len(record) == len(before) and all(
        desired is other for desired, other in zip(record, before, strict=True)
    )
    return before if same else record


def _with_claim(view: StrategyView, record: StrategyRecord) -> StrategyView:
    """The view after a strategy has planned; a shadow claims nothing."""
    if record.state.mode is not StrategyMode.ON:
        return view
    aside = view.set_aside.with_claim(record.strategy.name, record.plan.set_aside)
    return view if aside is view.set_aside else replace(view, set_aside=aside)


def _next(due: float, interval: float, now: float) -> float:
    """The next multiple of the interval; missed rounds are not repeated."""
    return due + interval if due + interval > now else now + interval


def _kind(found: object) -> str:
    return f"a {type(found).__name__}"


def _describe(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
