"""Results of a round of strategies. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koord_host.planning.desired_values import DesiredValue

from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    Plan,
    PodNotice,
    StrategyMode,
    StrategySignal,
)
from koordlet.states_informer.state.share_pools import ReservedCPUs


@dataclass(frozen=True, slots=True)
class StrategyState:
    """The state of a strategy, for ``/metrics`` and people.

    ``reason`` says why it is off, was skipped in its last round, or runs less often; else "".
    ``seconds`` is what its last round took, ``decided_at`` when that was (seconds since the
    epoch, 0 before), ``decisions`` and ``desired`` (desired values) how many it has now.
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
    desired: int = 0


@dataclass(frozen=True, slots=True)
class RoundPlans:
    """The result of a round: the plans of strategies that are not off, and which strategies ran.

    One-shot parts (claims, writes, notices) count only for those ``planned_now``; desired values
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
        """Claims of resources to be freed."""
        return [
            (name, StrategyMode.SHADOW if claim.shadow else mode, claim)
            for name, mode, plan in self._planned_now()
            for claim in plan.claims
        ]

    @property
    def notices(self) -> list[tuple[str, StrategyMode, PodNotice]]:
        """Events to write about pods."""
        return [
            (name, mode, notice)
            for name, mode, plan in self._planned_now()
            for notice in plan.notices
        ]

    @property
    def one_shot(self) -> list[tuple[str, tuple[DesiredValue, ...]]]:
        """Values to be written once."""
        return [
            (name, plan.one_shot)
            for name, mode, plan in self._planned_now()
            if mode is StrategyMode.ON and plan.one_shot
        ]

    @property
    def set_aside(self) -> ReservedCPUs:
        """CPUs that are in no shared pool."""
        claims = {name: plan.set_aside for name, plan in self.done() if plan.set_aside}
        pools = tuple(pool for _, plan in self.done() for pool in plan.pools)
        return ReservedCPUs(claims=claims, named=pools)

    @property
    def signals(self) -> Mapping[str, tuple[StrategySignal, ...]]:
        """The signals by strategy; those of a strategy in shadow mode are only shown."""
        return {name: plan.signals for name, (_, plan) in self.plans.items() if plan.signals}

    def _planned_now(self) -> Iterator[tuple[str, StrategyMode, Plan]]:
        return ((name, *self.plans[name]) for name in self.plans if name in self.planned_now)
