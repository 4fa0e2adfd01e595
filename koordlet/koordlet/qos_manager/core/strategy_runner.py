"""Round after round: what is known of the strategies between two of them. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from koord_model.node_slo import NodeSLO

from koordlet.qos_manager.core.round_plans import RoundPlans as RoundPlans
from koordlet.qos_manager.core.round_plans import StrategyState as StrategyState
from koordlet.qos_manager.core.strategy import Plan, StrategyMode, StrategySignal, StrategyView
from koordlet.qos_manager.core.strategy import Strategy as Strategy
from koordlet.qos_manager.core.strategy_round import BUDGET_SECONDS, StrategyRecord, StrategyRound


class StrategyRunner:
    """Runs strategies, round after round.

    One thread calls these functions: the event loop's. Another may run the round between
    ``start`` and ``finish``; if it is not finished, it has changed nothing, and what ran in it
    runs again. Any thread may read ``states`` and ``signals``, which ``finish`` replaces.

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
        self._records = {
            strategy.name: StrategyRecord(strategy, _initial_state(strategy))
            for strategy in strategies
        }
        self._hanging: set[str] = set()
        self._late: dict[str, Plan] = {}
        self._clock = clock
        self._budget = budget_seconds
        self._shown_only = shown_only
        self._slo: NodeSLO | None = None
        self.signals: Mapping[str, tuple[StrategySignal, ...]] = {}
        """Those of the last round: what the next view is to hold."""

    def states(self) -> tuple[StrategyState, ...]:
        """The state of each strategy."""
        return tuple(record.state for record in self._records.values())

    @property
    def next_due(self) -> float:
        """Time at which a strategy is due next, by the steady clock."""
        return min((record.due for record in self._records.values()), default=float("inf"))

    def start(self) -> StrategyRound:
        """Make the next round; nothing runs yet."""
        self._take_late()
        return StrategyRound(
            self._records,
            frozenset(self._hanging),
            self._slo,
            self._clock,
            budget_seconds=self._budget,
            shown_only=self._shown_only,
        )

    def finish(self, done: StrategyRound) -> None:
        """Take over what a round has found out, once it has run."""
        self._records, self._slo, self.signals = done.records, done.slo, done.signals

    def decide(self, view: StrategyView) -> RoundPlans:
        """Run all that are due, in this thread."""
        round_ = self.start()
        found = round_.run(view)
        self.finish(round_)
        return found

    def suspend(self, name: str, reason: str) -> None:
        """Skip a strategy that hangs, until ``resume``."""
        self._hanging.add(name)
        record = self._records[name]
        record.state = replace(record.state, reason=reason, overruns=record.state.overruns + 1)

    def resume(self, name: str, late: Plan | None) -> None:
        """Run a strategy again that has returned.

        Its return shows that the cause (a kernel file, a suspended machine) is gone. Where it was
        only slow, it goes on from its ``late`` plan: it would take as long from the beginning.
        """
        self._hanging.discard(name)
        if late is not None:
            self._late[name] = late

    def _take_late(self) -> None:
        for name, plan in self._late.items():
            record = self._records[name]
            if record.state.mode is not StrategyMode.OFF:
                record.plan = plan
        self._late.clear()


def _initial_state(strategy: Strategy) -> StrategyState:
    return StrategyState(strategy.name, strategy.gate, StrategyMode.ON, True, strategy.interval)
