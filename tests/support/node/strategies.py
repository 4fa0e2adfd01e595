"""All strategies on a node in memory, one run of koordlet after another.

All between the measurements and the kernel's files is real: views, strategies, evictor (it
evicts nobody), plan queue, reconcile loop, executor, baselines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from koord_hooks.runner import HookRunner
from koord_host.planning.outcomes import Outcome
from koordlet.agent.agent import with_strategies
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.decision_log import DecisionLog
from koordlet.qos_manager.core.strategy import Strategy, StrategyView
from koordlet.qos_manager.core.strategy_runner import RoundPlans, StrategyRunner
from koordlet.qos_manager.eviction.evictor import Evictor
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_loop import StrategyLoop
from koordlet.qos_manager.strategy_table import select_enabled
from koordlet.qos_manager.view_builder import StrategyViewBuilder, ViewSources
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult

from tests.support.node.fixture import NodeFixture
from tests.support.node.workload import Measured
from tests.support.processes import PATIENCE

ALL_GATES = dict.fromkeys(DEFAULTS, True)
SETTLED = 11.0
"""Seconds after which strategies have measured what they go by."""


class StrategyNode(NodeFixture):
    """A node on which strategies run: what is measured, and what the cluster's rules are."""

    def __init__(self, directory: Path, *kind: Any, **more: Any) -> None:
        super().__init__(directory, *kind, **more)
        self.measured = Measured()
        self.pods_known = True
        self.slo: dict[str, Any] | None = None

    def run(self, runner: HookRunner | None = None, **options: Any) -> StrategyRun:
        """The next run of koordlet."""
        return StrategyRun(self, runner or HookRunner([]), **options)


class StrategyRun:
    """One run of koordlet; leaving it is as good as a kill: nothing is put back."""

    def __init__(
        self,
        node: StrategyNode,
        runner: HookRunner,
        *,
        strategies: Sequence[Strategy] | None = None,
        gates: Mapping[str, bool] = ALL_GATES,
    ) -> None:
        self.of = node
        self._stack = ExitStack()
        clock = SimpleNamespace(time=lambda: node.wall, monotonic=lambda: node.steady)
        self._stack.enter_context(patch("koordlet.agent.runtime_hooks.time", clock))
        self.node = self._stack.enter_context(node.koordlet(runner=runner))
        self.executor = self.node.plan_queue._executor
        pods = self.node.reconcile_loop.pods
        self._seen = ViewSources(
            node.layout,
            node.files,
            pods=pods.inventory.records,
            pods_known=lambda: node.pods_known,
            view=lambda: self.node.views.current,
            newest=cast("Any", SimpleNamespace(frozen=lambda: node.measured.latest)),
            cache=cast("Any", None),
            base=self.node.plan_queue.base,
            set_aside=lambda: self.node.views.set_aside(),
        )
        self.views = StrategyViewBuilder(self._seen)
        chosen, off = select_enabled(asdict(KoordletSettings()), gates)
        self.strategies = tuple(strategies if strategies is not None else chosen)
        self.rounds = StrategyRunner(self.strategies, lambda: 0.0)
        self.decisions = DecisionLog()
        self.evictor = Evictor(
            None,
            EvictionLimits(5, 20, 4),
            None,
            why_not="a test",
            now=lambda: node.wall,
            monotonic=lambda: node.steady,
        )
        self.wanted: list[NodePlan] = []
        self.decider = StrategyLoop(
            self.rounds, off, self._look, self.decisions, self.evictor, self._carry
        )
        views = self.node.views
        views.set_aside = partial(with_strategies, views.set_aside, self.decider)
        self.found: RoundPlans | None = None
        self.done: list[ReconcileResult] = []
        self.said: list[str] = []
        """Lines for people, of rules and strategies."""

    def __enter__(self) -> StrategyRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _look(self, *_: object) -> StrategyView:
        node = self.of
        view = self.views.build(node.wall, node.steady, self.rounds.signals)
        return replace(view, latest=node.measured.latest, history=node.measured.history)

    def _carry(self, wanted: NodePlan) -> None:
        self.wanted.append(wanted)
        self.node.plan_queue.put(wanted)

    def round(self, seconds: float = 1.0) -> ReconcileResult:
        """After some seconds: strategies decide, and koordlet does it."""
        self.of.wall += seconds
        self.of.steady += seconds
        reconcile_loop, of = self.node.reconcile_loop, self.of
        reconcile_loop.pods.inventory.replace([pod.record for pod in of.pods], of.steady)
        reconcile_loop.pods.complete = of.pods_known
        document = None if of.slo is None else {"spec": of.slo}
        if self.node.views._objects.get("NodeSLO") != document:
            self.node.views.update_object("NodeSLO", document)
        known = [pod.record.pod for pod in of.pods] if of.pods_known else None
        self.said += reconcile_loop._views.refresh(known)[1]
        one = self.rounds.start()
        view, self.found = self.decider._round(one)
        self.rounds.finish(one)
        self.said += self.found.problems
        self.decider._publish(view, self.found)
        done, _ = reconcile_loop._round(reconcile_loop.inventory.records(), set())
        # Time stands still here until they are done, as it does for everything else.
        assert not self.node.jobs.wait(PATIENCE)
        self.done.append(done)
        return done

    def rounds_of(self, *seconds: float) -> list[ReconcileResult]:
        """Rounds, each so many seconds after the last."""
        return [self.round(one) for one in seconds]

    def comes_to_rest(self, most: int = 60) -> int:
        """Rounds until nothing has been written for a while; how many those were.

        One-shot actions leave no state, and go on.
        """
        quiet = 0
        for number in range(most):
            done = self.round(5.0)
            wrote = any(
                one.outcome is Outcome.WRITTEN and one.target.knob != "memory.reclaim"
                for one in done.writes.results
            )
            quiet = 0 if wrote else quiet + 1
            if quiet > 4:
                return number
        raise AssertionError(f"written over and over: {done.writes.news}")


def all_of(results: Iterable[ReconcileResult], outcome: Outcome) -> Iterator[Any]:
    """Every result with this outcome."""
    return (one for done in results for one in done.writes.results if one.outcome is outcome)
