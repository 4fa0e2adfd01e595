from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_host.planning.desired_values import DesiredValue, Target
from koordlet.qos_manager import strategy_loop as module
from koordlet.qos_manager.core.decision_log import DecisionLog
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    Plan,
    PodNotice,
    Strategy,
    StrategyMode,
    StrategySignal,
    StrategyView,
)
from koordlet.qos_manager.core.strategy_runner import StrategyRunner
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_loop import StrategyLoop
from koordlet.qos_manager.strategy_table import DisabledStrategy

from tests.support.processes import PATIENCE
from tests.support.views import view
from tests.support.waiting import until

Words = Callable[..., list[tuple[str, dict[str, str]]]]
FIVE = DesiredValue(Target("g", "cpu.shares"), 5)
SIX = DesiredValue(Target("g", "cpu.shares"), 6)


@dataclass(frozen=True, slots=True)
class Settings:
    percent: int = 65


def strategy(
    name: str, plan: Callable[[StrategyView, Any, Any], Plan], interval: float = 1.0
) -> Strategy:
    return Strategy(name, "Gate", interval, Settings, lambda _: Settings(), plan)


@dataclass
class Evictor:
    """Records the claims; decides that nobody goes."""

    claims: list[tuple[str, StrategyMode, EvictionClaim]] = field(default_factory=list)

    def consider(
        self,
        _: StrategyView,
        claims: Sequence[tuple[str, StrategyMode, EvictionClaim]],
        notices: Sequence[tuple[str, StrategyMode, PodNotice]],
    ) -> Sequence[tuple[str, StrategyMode, Decision]]:
        self.claims += claims
        return [(name, mode, Decision("nobody goes", aspect="claim")) for name, mode, _ in claims]


class Bench:
    """A loop of given strategies, and its results."""

    def __init__(self, *strategies: Strategy, writes: bool = True) -> None:
        self.pods_known = True
        self.later = 0.0
        self.evictor = Evictor()
        self.decisions = DecisionLog()
        self.plans: list[NodePlan] = []
        self.loop = StrategyLoop(
            StrategyRunner(strategies, lambda: 0.0),
            [DisabledStrategy("idle", "Idle", "disabled; enable with --feature-gates=Idle=true")],
            self.build,
            self.decisions,
            self.evictor,
            self.plans.append if writes else None,
        )

    def build(
        self, at: float, steady: float, signals: Mapping[str, tuple[StrategySignal, ...]]
    ) -> StrategyView:
        now = steady + self.later
        return view(at=at, steady=now, pods_known=self.pods_known, signals=signals)

    async def decide(self, times: int = 1) -> None:
        for _ in range(times):
            await self.loop.decide()

    @property
    def current(self) -> list[str]:
        return [one.decision.outcome for one in self.decisions.find(lambda _: True).standing]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


def logged(words: Words, event: str) -> list[dict[str, str]]:
    return [fields for _, fields in words(event)]


async def test_a_plan_is_passed_on_once_with_its_journal_lines() -> None:
    plan = Plan(desired=(FIVE,), decisions=(Decision("five"),))
    bench = Bench(strategy("one", lambda *_: plan))
    await bench.decide(2)
    [node_plan] = bench.plans
    assert (dict(node_plan.desired), node_plan.complete) == ({"one": (FIVE,)}, False)
    [line] = node_plan.lines
    assert line.outcome == "five"  # type: ignore[union-attr]
    values = iter((FIVE, SIX))
    bench = Bench(strategy("one", lambda *_: Plan(desired=(next(values),)), interval=0.0))
    await bench.decide(2)
    assert [one.desired["one"] for one in bench.plans] == [(FIVE,), (SIX,)]


async def test_where_nothing_is_written_nothing_is_passed_on() -> None:
    bench = Bench(strategy("one", lambda *_: Plan((FIVE,), (Decision("five"),))), writes=False)
    await bench.decide()
    assert (bench.plans, bench.current) == ([], ["five"])


@pytest.mark.parametrize(("writes", "expected"), [(True, {1, 2}), (False, set())])
async def test_cpus_that_strategies_set_aside_are_known(writes: bool, expected: set[int]) -> None:
    one = strategy("a", lambda *_: Plan(set_aside=frozenset({1})))
    two = strategy("b", lambda *_: Plan(set_aside=frozenset({2})))
    bench = Bench(one, two, writes=writes)
    await bench.decide()
    assert bench.loop.set_aside.all == expected


@pytest.mark.parametrize(
    ("rounds", "complete"),
    [
        # Whether pods are known, and how many seconds later; without a list after 300 s.
        ([(False, 0), (False, 60), (True, 61), (True, 70), (True, 71)], [False, True]),
        ([(False, 0), (False, 299), (False, 301), (False, 309)], [False]),
        ([(False, 0), (False, 299), (False, 301), (False, 312)], [False, True]),
    ],
)
async def test_it_is_complete_once_pods_were_known_for_a_while(
    rounds: list[tuple[bool, float]], complete: list[bool]
) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    for bench.pods_known, bench.later in rounds:
        await bench.decide()
    assert [one.complete for one in bench.plans] == complete
    assert all(dict(one.desired) == {"one": (FIVE,)} for one in bench.plans)


async def test_claims_are_considered_and_invalid_ones_cost_no_desired_values(
    words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Sequence[tuple[str, StrategyMode, Decision]]:
        raise TypeError("no number")

    claim = EvictionClaim("memoryUsage", "memory", 1.0, (), Decision("full"))
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,), claims=(claim,))))
    await bench.decide()
    assert bench.evictor.claims == [("one", StrategyMode.ON, claim)]
    assert bench.current == ["nobody goes"]
    monkeypatch.setattr(bench.evictor, "consider", fail)
    await bench.decide(2)
    assert [dict(one.desired) for one in bench.plans] == [{"one": (FIVE,)}]
    assert len(logged(words, "claims of strategies failed")) == 1


async def test_states_of_all_by_name() -> None:
    idle, one = Bench(strategy("one", lambda *_: Plan())).loop.states()
    assert (idle.name, idle.enabled, idle.mode) == ("idle", False, StrategyMode.OFF)
    assert idle.reason == "disabled; enable with --feature-gates=Idle=true"
    assert (one.name, one.enabled) == ("one", True)


@pytest.mark.usefixtures("hurried")
async def test_a_strategy_that_hangs_is_left_behind_and_the_others_go_on(words: Words) -> None:
    shut_down, gone = threading.Event(), threading.Event()

    def hang(*_: Any) -> Plan:
        shut_down.wait(PATIENCE)
        gone.set()
        return Plan(desired=(SIX,))

    bench = Bench(strategy("hangs", hang), strategy("works", lambda *_: Plan(desired=(FIVE,))))
    await bench.decide(2)
    assert [dict(one.desired) for one in bench.plans] == [{"works": (FIVE,)}]
    state = next(one for one in bench.loop.states() if one.name == "hangs")
    assert state.reason.endswith("it is not asked until it does")
    shut_down.set()
    await asyncio.to_thread(gone.wait, PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while len(bench.plans) < 2:
            await bench.decide()
    # Its late plan is dropped; the next one is not.
    assert dict(bench.plans[1].desired) == {"hangs": (SIX,), "works": (FIVE,)}
    [state] = [one for one in bench.loop.states() if one.name == "hangs"]
    assert (state.reason, state.rounds) == ("", 1)
    [fields] = logged(words, "strategy hangs")
    assert fields["reason"].startswith("hangs has not come back for")


@pytest.mark.usefixtures("hurried")
async def test_a_view_that_hangs_or_fails_costs_a_round(words: Words) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    build = bench.build
    rounds = iter((RuntimeError("defect"), RuntimeError("defect"), None))

    def faulty(*moment: Any) -> StrategyView:
        error = next(rounds)
        if error is not None:
            raise error
        time.sleep(0.2)
        return build(*moment)

    bench.loop._build_view = faulty
    await bench.decide(3)
    assert len(bench.plans) == 1
    assert logged(words, "strategy round failed") == [{"reason": "RuntimeError: defect"}]


@pytest.mark.usefixtures("hurried")
async def test_a_view_that_hangs_is_logged(words: Words) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    build = bench.build
    bench.loop._build_view = lambda *moment: (time.sleep(0.2), build(*moment))[1]
    await bench.decide()
    assert (len(bench.plans), len(logged(words, "strategy round hangs"))) == (1, 1)


async def test_it_decides_until_it_is_cancelled() -> None:
    calls: list[float] = []

    def plan(view: StrategyView, *_: Any) -> Plan:
        calls.append(view.steady)
        return Plan()

    bench = Bench(strategy("one", plan, interval=0.02))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        running = group.create_task(bench.loop.run())
        await until(lambda: len(calls) > 3)
        assert not running.done()
        running.cancel()
