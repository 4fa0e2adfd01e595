from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_host.layout import Driver, Layout
from koord_host.wishes import Target, Wish
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
from koordlet.deciding import decider as module
from koordlet.deciding.carrying import Wanted
from koordlet.deciding.contract import Claim, Decision, Mode, Notice, Plan, Signal, Strategy, View
from koordlet.deciding.decider import Decider
from koordlet.deciding.decisions import Decisions
from koordlet.deciding.round import Rounds
from koordlet.deciding.table import Off

from tests.support.processes import PATIENCE

LAYOUT = Layout(2, Driver.CGROUPFS)
FIVE = Wish(Target("g", "cpu.shares"), 5)
SIX = Wish(Target("g", "cpu.shares"), 6)


@dataclass(frozen=True, slots=True)
class Settings:
    percent: int = 65


def strategy(name: str, plan: Callable[[View, Any, Any], Plan]) -> Strategy:
    return Strategy(name, "Gate", 1.0, Settings, lambda _: Settings(), plan)


@dataclass
class Evictor:
    """Notes what it was given; decides that nobody goes."""

    claims: list[tuple[str, Mode, Claim]] = field(default_factory=list)

    def consider(
        self,
        view: View,
        claims: Sequence[tuple[str, Mode, Claim]],
        notices: Sequence[tuple[str, Mode, Notice]],
    ) -> Sequence[tuple[str, Mode, Decision]]:
        self.claims += claims
        return [(name, mode, Decision("nobody goes", aspect="claim")) for name, mode, _ in claims]


class Bench:
    """A decider of given strategies, and what came of it."""

    def __init__(self, *strategies: Strategy, writes: bool = True) -> None:
        self.slo = NodeSLO()
        self.pods_known = True
        self.later = 0.0
        self.evictor = Evictor()
        self.decisions = Decisions()
        self.wanted: list[Wanted] = []
        self.rounds = Rounds(strategies, lambda: 0.0)
        self.decider = Decider(
            self.rounds,
            [Off("idle", "Idle", "--feature-gates Idle=true is not given")],
            self.look,
            self.decisions,
            self.evictor,
            self.wanted.append if writes else None,
        )

    def look(self, at: float, steady: float, signals: Mapping[str, tuple[Signal, ...]]) -> View:
        node = NodeView(slo=self.slo)
        return View(
            at, steady + self.later, LAYOUT, node=node, pods_known=self.pods_known, signals=signals
        )


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


async def test_what_is_wanted_is_handed_on_once() -> None:
    plan = Plan(wishes=(FIVE,), decisions=(Decision("five"),))
    bench = Bench(strategy("one", lambda *_: plan))
    await bench.decider.decide()
    await bench.decider.decide()
    [wanted] = bench.wanted
    assert (dict(wanted.wishes), wanted.complete) == ({"one": (FIVE,)}, False)
    [line] = wanted.lines
    assert line.outcome == "five"  # type: ignore[union-attr]


async def test_other_wishes_are_handed_on_at_once() -> None:
    values = iter((FIVE, SIX))
    one = Strategy(
        "one", "One", 0.0, Settings, lambda _: Settings(), lambda *_: Plan(wishes=(next(values),))
    )
    bench = Bench(one)
    await bench.decider.decide()
    await bench.decider.decide()
    assert [wanted.wishes["one"] for wanted in bench.wanted] == [(FIVE,), (SIX,)]


async def test_it_is_complete_once_pods_were_known_for_a_while() -> None:
    bench = Bench(strategy("one", lambda *_: Plan(wishes=(FIVE,))))
    for pods_known, later in (
        (False, 0.0),
        (False, 60.0),
        (True, 61.0),
        (True, 70.0),
        (True, 71.0),
    ):
        bench.pods_known, bench.later = pods_known, later
        await bench.decider.decide()
    assert [(wanted.complete, wanted.wishes) for wanted in bench.wanted] == [
        (False, {"one": (FIVE,)}),
        (True, {"one": (FIVE,)}),
    ]


async def test_where_no_list_of_pods_ever_comes_it_is_complete_all_the_same() -> None:
    bench = Bench(strategy("one", lambda *_: Plan(wishes=(FIVE,))))
    bench.pods_known = False
    for bench.later in (0.0, 299.0, 301.0, 309.0, 312.0):
        await bench.decider.decide()
    assert [wanted.complete for wanted in bench.wanted] == [False, True]


async def test_claims_that_make_no_sense_cost_no_wishes(
    words: Callable[..., list[tuple[str, dict[str, str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Sequence[tuple[str, Mode, Decision]]:
        raise TypeError("no number")

    bench = Bench(strategy("one", lambda *_: Plan(wishes=(FIVE,))))
    monkeypatch.setattr(bench.evictor, "consider", fail)
    await bench.decider.decide()
    await bench.decider.decide()
    assert [dict(wanted.wishes) for wanted in bench.wanted] == [{"one": (FIVE,)}]
    assert len(words("claims of strategies failed")) == 1


async def test_claims_are_considered_and_what_came_of_them_is_kept() -> None:
    claim = Claim("memoryUsage", "memory", 1.0, (), Decision("full"))
    bench = Bench(strategy("one", lambda *_: Plan(claims=(claim,))))
    await bench.decider.decide()
    assert bench.evictor.claims == [("one", Mode.ON, claim)]
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
    assert (idle.name, idle.enabled, idle.mode) == ("idle", False, Mode.OFF)
    assert idle.reason == "--feature-gates Idle=true is not given"
    assert (one.name, one.enabled) == ("one", True)


@pytest.mark.usefixtures("hurried")
async def test_one_that_hangs_is_left_behind_and_the_others_go_on(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    let_go, gone = threading.Event(), threading.Event()

    def hang(*_: Any) -> Plan:
        let_go.wait(PATIENCE)
        gone.set()
        return Plan(wishes=(SIX,))

    bench = Bench(strategy("hangs", hang), strategy("works", lambda *_: Plan(wishes=(FIVE,))))
    await bench.decider.decide()
    await bench.decider.decide()
    assert [dict(wanted.wishes) for wanted in bench.wanted] == [{"works": (FIVE,)}]
    state = next(one for one in bench.decider.states() if one.name == "hangs")
    assert state.reason.endswith("it is not asked until it does")
    let_go.set()
    await asyncio.to_thread(gone.wait, PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while len(bench.wanted) < 2:
            await bench.decider.decide()
    # What it said too late is nobody's business; what it says when it is asked again is.
    assert dict(bench.wanted[1].wishes) == {"hangs": (SIX,), "works": (FIVE,)}
    [state] = [one for one in bench.decider.states() if one.name == "hangs"]
    assert (state.reason, state.rounds) == ("", 1)
    [(_, fields)] = words("strategy")
    assert fields["reason"].startswith("hangs has not come back for")


@pytest.mark.usefixtures("hurried")
async def test_a_view_that_hangs_is_waited_for(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(wishes=(FIVE,))))
    look = bench.look

    def slow(*moment: Any) -> View:
        time.sleep(0.2)
        return look(*moment)

    bench.decider._look = slow
    await bench.decider.decide()
    assert len(bench.wanted) == 1
    assert len(words("round of strategies hangs")) == 1


@pytest.mark.usefixtures("hurried")
async def test_a_defect_in_the_view_costs_a_round(
    words: Callable[..., list[tuple[str, dict[str, str]]]],
) -> None:
    bench = Bench(strategy("one", lambda *_: Plan(wishes=(FIVE,))))
    look = bench.look
    rounds = iter((RuntimeError("defect"), RuntimeError("defect"), None))

    def faulty(*moment: Any) -> View:
        error = next(rounds)
        if error is not None:
            raise error
        return look(*moment)

    bench.decider._look = faulty
    for _ in range(3):
        await bench.decider.decide()
    assert len(bench.wanted) == 1
    [(_, fields)] = words("round of strategies failed")
    assert fields == {"reason": "RuntimeError: defect"}


async def test_it_decides_until_it_is_cancelled() -> None:
    calls: list[float] = []

    def plan(view: View, *_: Any) -> Plan:
        calls.append(view.steady)
        return Plan()

    bench = Bench(Strategy("one", "One", 0.02, Settings, lambda _: Settings(), plan))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        running = group.create_task(bench.decider.run())
        while len(calls) <= 3:
            await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
