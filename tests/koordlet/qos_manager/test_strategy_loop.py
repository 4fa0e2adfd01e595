from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
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

LAYOUT = Layout(2, Driver.CGROUPFS)
FIVE = DesiredValue(Target("g", "cpu.shares"), 5)
SIX = DesiredValue(Target("g", "cpu.shares"), 6)


@dataclass(frozen=True, slots=True)
class Settings:
    percent: int = 65


def strategy(name: str, plan: Callable[[StrategyView, Any, Any], Plan]) -> Strategy:
    return Strategy(name, "Gate", 1.0, Settings, lambda _: Settings(), plan)


@dataclass
class Evictor:
    """Notes what it was given; decides that nobody goes."""

    claims: list[tuple[str, StrategyMode, EvictionClaim]] = field(default_factory=list)

    def consider(
        self,
        view: StrategyView,
        claims: Sequence[tuple[str, StrategyMode, EvictionClaim]],
        notices: Sequence[tuple[str, StrategyMode, PodNotice]],
    ) -> Sequence[tuple[str, StrategyMode, Decision]]:
        self.claims += claims
        return [(name, mode, Decision("nobody goes", aspect="claim")) for name, mode, _ in claims]


class Bench:
    """A decider of given strategies, and what came of it."""

    def __init__(self, *strategies: Strategy, writes: bool = True) -> None:
        self.slo = NodeSLO()
        self.pods_known = True
        self.later = 0.0
        self.evictor = Evictor()
        self.decisions = DecisionLog()
        self.wanted: list[NodePlan] = []
        self.rounds = StrategyRunner(strategies, lambda: 0.0)
        self.decider = StrategyLoop(
            self.rounds,
            [DisabledStrategy("idle", "Idle", "disabled; enable with --feature-gates=Idle=true")],
            self.look,
            self.decisions,
            self.evictor,
            self.wanted.append if writes else None,
        )

    def look(
        self, at: float, steady: float, signals: Mapping[str, tuple[StrategySignal, ...]]
    ) -> StrategyView:
        node = NodeView(slo=self.slo)
        return StrategyView(
            at, steady + self.later, LAYOUT, node=node, pods_known=self.pods_known, signals=signals
        )


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


async def test_what_is_wanted_is_handed_on_once() -> None:
    plan = Plan(desired=(FIVE,), decisions=(Decision("five"),))
    bench = Bench(strategy("one", lambda *_: plan))
    await bench.decider.decide()
    await bench.decider.decide()
    [wanted] = bench.wanted
    assert (dict(wanted.desired), wanted.complete) == ({"one": (FIVE,)}, False)
    [line] = wanted.lines
    assert line.outcome == "five"  # type: ignore[union-attr]


async def test_other_wishes_are_handed_on_at_once() -> None:
    values = iter((FIVE, SIX))
    one = Strategy(
        "one", "One", 0.0, Settings, lambda _: Settings(), lambda *_: Plan(desired=(next(values),))
    )
    bench = Bench(one)
    await bench.decider.decide()
    await bench.decider.decide()
    assert [wanted.desired["one"] for wanted in bench.wanted] == [(FIVE,), (SIX,)]


async def test_it_is_complete_once_pods_were_known_for_a_while() -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    for pods_known, later in (
        (False, 0.0),
        (False, 60.0),
        (True, 61.0),
        (True, 70.0),
        (True, 71.0),
    ):
        bench.pods_known, bench.later = pods_known, later
        await bench.decider.decide()
    assert [(wanted.complete, wanted.desired) for wanted in bench.wanted] == [
        (False, {"one": (FIVE,)}),
        (True, {"one": (FIVE,)}),
    ]


async def test_where_no_list_of_pods_ever_comes_it_is_complete_all_the_same() -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    bench.pods_known = False
    for bench.later in (0.0, 299.0, 301.0, 309.0, 312.0):
        await bench.decider.decide()
    assert [wanted.complete for wanted in bench.wanted] == [False, True]


async def test_claims_that_make_no_sense_cost_no_wishes(
    words: Callable[..., list[tuple[str, dict[str, str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Sequence[tuple[str, StrategyMode, Decision]]:
        raise TypeError("no number")

    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    monkeypatch.setattr(bench.evictor, "consider", fail)
    await bench.decider.decide()
    await bench.decider.decide()
    assert [dict(wanted.desired) for wanted in bench.wanted] == [{"one": (FIVE,)}]
    assert len(words("claims of strategies failed")) == 1


async def test_claims_are_considered_and_what_came_of_them_is_kept() -> None:
    claim = EvictionClaim("memoryUsage", "memory", 1.0, (), Decision("full"))
    bench = Bench(strategy("one", lambda *_: Plan(claims=(claim,))))
    await bench.decider.decide()
    assert bench.evictor.claims == [("one", StrategyMode.ON, claim)]
    [standing] = bench.decisions.find(lambda _: True).standing
    assert standing.decision.outcome == "nobody goes"


async def test_where_nothing_is_written_nothing_is_handed_on() -> None:
    bench = Bench(strategy("one", lambda *_: Plan((FIVE,), (Decision("five"),))), writes=False)
    await bench.decider.decide()
    assert bench.wanted == []
    [standing] = bench.decisions.find(lambda _: True).standing
    assert standing.decision.outcome == "five"


async def test_states_of_all_by_name() -> None:
    bench = Bench(strategy("one", lambda *_: Plan()))
    idle, one = bench.decider.states()
    assert (idle.name, idle.enabled, idle.mode) == ("idle", False, StrategyMode.OFF)
    assert idle.reason == "disabled; enable with --feature-gates=Idle=true"
    assert (one.name, one.enabled) == ("one", True)


@pytest.mark.usefixtures("hurried")
async def test_one_that_hangs_is_left_behind_and_the_others_go_on(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    shut_down, gone = threading.Event(), threading.Event()

    def hang(*_: Any) -> Plan:
        shut_down.wait(PATIENCE)
        gone.set()
        return Plan(desired=(SIX,))

    bench = Bench(strategy("hangs", hang), strategy("works", lambda *_: Plan(desired=(FIVE,))))
    await bench.decider.decide()
    await bench.decider.decide()
    assert [dict(wanted.desired) for wanted in bench.wanted] == [{"works": (FIVE,)}]
    state = next(one for one in bench.decider.states() if one.name == "hangs")
    assert state.reason.endswith("it is not asked until it does")
    shut_down.set()
    await asyncio.to_thread(gone.wait, PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while len(bench.wanted) < 2:
            await bench.decider.decide()
    # What it said too late is nobody's business; what it says when it is asked again is.
    assert dict(bench.wanted[1].desired) == {"hangs": (SIX,), "works": (FIVE,)}
    [state] = [one for one in bench.decider.states() if one.name == "hangs"]
    assert (state.reason, state.rounds) == ("", 1)
    [(_, fields)] = words("strategy")
    assert fields["reason"].startswith("hangs has not come back for")


@pytest.mark.usefixtures("hurried")
async def test_a_view_that_hangs_is_waited_for(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    look = bench.look

    def slow(*moment: Any) -> StrategyView:
        time.sleep(0.2)
        return look(*moment)

    bench.decider._build_view = slow
    await bench.decider.decide()
    assert len(bench.wanted) == 1
    assert len(words("strategy round hangs")) == 1


@pytest.mark.usefixtures("hurried")
async def test_a_defect_in_the_view_costs_a_round(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(desired=(FIVE,))))
    look = bench.look
    rounds = iter((RuntimeError("defect"), RuntimeError("defect"), None))

    def faulty(*moment: Any) -> StrategyView:
        error = next(rounds)
        if error is not None:
            raise error
        return look(*moment)

    bench.decider._build_view = faulty
    for _ in range(3):
        await bench.decider.decide()
    assert len(bench.wanted) == 1
    [(_, fields)] = words("strategy round failed")
    assert fields == {"reason": "RuntimeError: defect"}


async def test_it_decides_until_it_is_cancelled() -> None:
    calls: list[float] = []

    def plan(view: StrategyView, *_: Any) -> Plan:
        calls.append(view.steady)
        return Plan()

    bench = Bench(Strategy("one", "One", 0.02, Settings, lambda _: Settings(), plan))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        running = group.create_task(bench.decider.run())
        while len(calls) <= 3:
            await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
