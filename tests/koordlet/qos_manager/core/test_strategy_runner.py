from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node_slo import NodeSLO
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    Plan,
    Strategy,
    StrategyMode,
    StrategySignal,
    StrategyView,
)
from koordlet.qos_manager.core.strategy_round import AbandonedError, reuse_unchanged
from koordlet.qos_manager.core.strategy_runner import StrategyRunner, StrategyState

from tests.support import views

Answer = Callable[[StrategyView, Any, Any], Any]
SIGNAL = StrategySignal("cores", 3.0)
SLO = NodeSLO()


@dataclass(frozen=True, slots=True)
class Settings:
    percent: int = 65


class Recorder:
    """A strategy that records how it is called."""

    def __init__(self, answer: Answer = lambda *_: Plan(), interval: float = 1.0) -> None:
        self.calls: list[tuple[float, Settings, Any]] = []
        self._answer = answer
        self._interval = interval

    def strategy(self, name: str = "one") -> Strategy:
        return Strategy(name, "One", self._interval, Settings, lambda _: Settings(), self.plan)

    def plan(self, view: StrategyView, settings: Settings, memory: Any) -> Plan:
        self.calls.append((view.steady, settings, memory))
        found: Plan = self._answer(view, settings, memory)
        return found

    @property
    def times(self) -> list[float]:
        return [call[0] for call in self.calls]


def view(steady: float = 0.0, slo: NodeSLO = SLO, **of_one: object) -> StrategyView:
    """``of_one`` is what the NodeSLO says of the strategy "one"."""
    return views.view(steady=steady, slo=NodeSLO(strategies={"one": of_one}) if of_one else slo)


def desired(*values: int, why: str = "") -> tuple[DesiredValue, ...]:
    return tuple(
        DesiredValue(Target(f"g{number}", "cpu.shares"), value, why)
        for number, value in enumerate(values)
    )


def runner_of(*strategies: Strategy | Answer, clock: Callable[[], float] = lambda: 0.0) -> Any:
    made = [one if isinstance(one, Strategy) else Recorder(one).strategy() for one in strategies]
    return StrategyRunner(made, clock, budget_seconds=0.1)


def state(of: StrategyRunner, name: str = "one") -> StrategyState:
    return next(one for one in of.states() if one.name == name)


def test_each_runs_at_its_interval_with_its_memory_and_missed_rounds_are_not_repeated() -> None:
    fast, slow = Recorder(lambda view, *_: Plan(memory=view.steady)), Recorder(interval=3.0)
    runner = runner_of(fast.strategy("fast"), slow.strategy("slow"))
    for steady in (0.0, 1.0, 2.0, 3.0, 4.0, 100.0, 100.5, 101.0):
        runner.decide(view(steady))
    assert fast.times == [0, 1, 2, 3, 4, 100, 101]
    assert [call[2] for call in fast.calls] == [None, 0, 1, 2, 3, 4, 100]
    assert slow.times == [0, 3, 100]
    assert runner.next_due == 102.0


def test_desired_values_stay_between_two_plans_and_claims_do_not() -> None:
    plan = Plan(desired=desired(5), decisions=(Decision("five"),), one_shot=desired(6))
    runner = runner_of(Recorder(lambda *_: plan, interval=10.0).strategy())
    first, second = runner.decide(view(0.0)), runner.decide(view(1.0))
    assert (first.planned_now, second.planned_now) == ({"one"}, set())
    assert (first.one_shot, second.one_shot) == ([("one", desired(6))], [])
    assert dict(second.done())["one"].desired == desired(5)
    assert second.decisions == [("one", StrategyMode.ON, Decision("five"))]
    assert second.claims == second.notices == []


def test_a_strategy_that_raises_keeps_its_plan_and_harms_no_other() -> None:
    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady == 1.0:
            raise KeyError("x")
        return Plan(desired=desired(int(view.steady) + 5))

    other = Recorder()
    runner = runner_of(Recorder(answer).strategy(), other.strategy("other"))
    runner.decide(view(0.0))
    found = runner.decide(view(1.0))
    assert dict(found.done())["one"].desired == desired(5)
    assert found.planned_now == {"other"}
    assert found.problems == ("one failed: KeyError: 'x'",)
    assert (state(runner).failures, state(runner).reason) == (1, "failed: KeyError: 'x'")
    runner.decide(view(2.0))
    assert (state(runner).reason, state(runner).rounds, len(other.calls)) == ("", 3, 3)
    found = runner_of(lambda *_: []).decide(view())
    assert found.problems == ("one failed: its plan is a list",)


def test_signals_of_one_that_fails_are_valid_for_a_minute() -> None:
    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady > 0.0:
            raise ValueError("no")
        return Plan(signals=(SIGNAL,))

    runner, seen = runner_of(answer), []
    for steady in (0.0, 30.0, 59.0, 61.0):
        runner.decide(view(steady))
        seen.append(runner.signals)
    assert seen == [{"one": (SIGNAL,)}] * 3 + [{}]


def test_a_failure_is_logged_once_and_again_after_a_long_quiet() -> None:
    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady not in (1.0, 3.0, 700.0):
            raise ValueError("no")
        return Plan()

    runner = runner_of(answer)
    times = (0.0, 0.5, 1.0, 2.0, 3.0, 99.0, 698.0, 700.0, 1297.0, 1897.0)
    assert [one for one in times if runner.decide(view(one)).problems] == [0.0, 1897.0]
    assert state(runner).failures == 6


def test_a_plan_that_took_too_long_counts_and_its_strategy_has_a_tenth_of_a_cpu() -> None:
    """On a slow node the next one would take as long, from the same beginning."""
    now, takes = 0.0, iter((0.25, 0.01, 0.01))

    def answer(view: StrategyView, *_: Any) -> Plan:
        nonlocal now
        now += next(takes)
        return Plan(desired(int(view.steady)), memory=view.steady, claims=(claim,))

    claim = EvictionClaim("memoryUsage", "memory", 1.0, (), Decision("full"))
    one = Recorder(answer)
    runner = runner_of(one.strategy(), clock=lambda: now)
    found = runner.decide(view(0.0))
    assert (dict(found.done())["one"].desired, len(found.claims)) == (desired(0), 1)
    reason = "took more than 100 ms of CPU, runs less often"
    assert found.problems == (f"one {reason}",)
    assert (state(runner).overruns, state(runner).failures) == (1, 0)
    assert (state(runner).reason, runner.next_due) == (reason, 2.5)
    for steady in (1.0, 2.0, 2.5, 3.5):
        runner.decide(view(steady))
    assert (one.times, [call[2] for call in one.calls]) == ([0, 2.5, 3.5], [None, 0, 2.5])
    assert (state(runner).overruns, state(runner).reason) == (1, "")


def test_in_shadow_mode_a_plan_is_shown_and_not_carried_out() -> None:
    plan = Plan(desired(5), (Decision("five"),), one_shot=desired(6), signals=(SIGNAL,))
    runner = runner_of(lambda *_: plan)
    found = runner.decide(view(mode="shadow"))
    assert list(found.done()) == found.one_shot == []
    assert found.decisions == [("one", StrategyMode.SHADOW, Decision("five"))]
    assert (found.signals, runner.signals) == ({"one": (SIGNAL,)}, {})
    assert runner.decide(view(1.0)).one_shot == [("one", desired(6))]
    assert runner.signals == {"one": (SIGNAL,)}
    # Where nothing is written all are shadows, which get each other's signals.
    runner = StrategyRunner([Recorder(lambda *_: plan).strategy()], lambda: 0.0, shown_only=True)
    assert (list(runner.decide(view()).done()), runner.signals) == ([], {"one": (SIGNAL,)})
    assert runner.decide(view(1.0, mode="off")).plans == {}


def test_switched_off_it_does_not_run_and_begins_anew_later() -> None:
    one = Recorder(lambda *_: Plan(desired=desired(5), memory=1))
    runner = runner_of(one.strategy())
    runner.decide(view(0.0))
    assert runner.decide(view(1.0, mode="off")).plans == {}
    assert runner.next_due == 2.0, "no round is made before for one that is off"
    off = state(runner)
    assert (len(one.calls), off.mode, off.desired) == (1, StrategyMode.OFF, 0)
    assert off.reason == "switched off by the NodeSLO"
    runner.decide(view(2.0))
    assert one.calls[-1][2] is None


def test_with_other_settings_it_runs_at_once_and_what_is_wrong_is_logged_once() -> None:
    one = Recorder(interval=60.0)
    runner = runner_of(one.strategy())
    runner.decide(view(0.0))
    lines = [runner.decide(view(at, percent=40, other=1)).problems for at in (1.0, 2.0)]
    assert [call[:2] for call in one.calls] == [(0, Settings()), (1, Settings(percent=40))]
    assert [len(one) for one in lines] == [1, 0]
    unknown = NodeSLO(strategies={"two": {}})
    assert len(runner.decide(view(3.0, unknown)).problems) == 1


def test_settings_that_cannot_be_read_leave_the_last_in_force() -> None:
    def settings(slo: NodeSLO) -> Settings:
        if slo.total_network_bandwidth:
            raise RuntimeError("defect")
        return Settings(percent=1)

    broken, reason = (
        NodeSLO(total_network_bandwidth=1),
        "cannot read its settings: RuntimeError: defect",
    )
    one = Recorder()
    runner = runner_of(replace(one.strategy(), settings=settings))
    runner.decide(view(0.0))
    assert runner.decide(view(1.0, broken)).problems == (f"one {reason}",)
    assert state(runner).failures == 1
    assert [call[1].percent for call in one.calls] == [1, 1]
    runner = runner_of(replace(one.strategy(), settings=settings))
    runner.decide(view(2.0, broken))
    assert (len(one.calls), state(runner).reason) == (2, reason)


def test_one_that_was_given_up_is_skipped_until_it_returns_and_its_values_stay() -> None:
    one = Recorder(lambda *_: Plan(desired=desired(5)))
    runner = runner_of(one.strategy(), Recorder().strategy("other"))
    runner.decide(view(0.0))
    runner.suspend("one", "has not come back")
    assert (state(runner).reason, state(runner).overruns) == ("has not come back", 1)
    found = runner.decide(view(1.0))
    assert (found.planned_now, dict(found.done())["one"].desired) == ({"other"}, desired(5))
    assert runner.next_due == 2.0
    runner.resume("one", None)
    runner.decide(view(2.0))
    assert (one.times, state(runner).reason, state(runner).overruns) == ([0, 2], "", 1)


def test_a_round_ends_with_the_strategy_that_is_given_up_and_has_changed_nothing() -> None:
    def answer(*_: Any) -> Plan:
        assert round_.give_up("two") is (round_.running == "two")
        return Plan(memory="late", claims=(claim,))

    claim = EvictionClaim("memoryUsage", "memory", 1.0, (), Decision("full"))
    first, second, third = Recorder(answer), Recorder(answer), Recorder()
    runner = runner_of(first.strategy(), second.strategy("two"), third.strategy("three"))
    before, round_ = runner.states(), runner.start()
    with pytest.raises(AbandonedError) as late:
        round_.run(view(0.0))
    assert (first.times, second.times, third.times) == ([0], [0], [])
    assert (runner.states(), runner.next_due) == (before, float("-inf"))
    round_ = runner.start()
    assert not round_.give_up("two"), "it does not run"
    runner.resume("two", late.value.plan)
    found = runner.decide(view(1.0))
    assert second.calls[-1][2] == "late", "what it has found out is not found out again"
    assert found.planned_now == {"one", "two", "three"}


def test_unchanged_values_are_the_same_objects_with_their_reason() -> None:
    before = desired(1, 2, why="then")
    assert reuse_unchanged(before, desired(1, 2, why="now")) is before
    found = reuse_unchanged(before, desired(1, 3, why="now"))
    assert [one.why for one in found] == ["then", "now"]
    assert found[0] is before[0]
    assert reuse_unchanged(before, desired(1)) == before[:1]
