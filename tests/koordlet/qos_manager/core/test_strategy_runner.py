from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    Strategy,
    StrategyMode,
    StrategySignal,
    StrategyView,
)
from koordlet.qos_manager.core.strategy_runner import (
    AbandonedError,
    RoundPlans,
    StrategyRunner,
    StrategyState,
    reuse_unchanged,
)

LAYOUT = Layout(2, Driver.CGROUPFS)


@dataclass(frozen=True, slots=True)
class Settings:
    percent: int = 65


class Asked:
    """A strategy that notes how it was asked and answers as it is told."""

    def __init__(
        self, answer: Callable[[StrategyView, Any, Any], Any], interval: float = 1.0
    ) -> None:
        self.calls: list[tuple[float, Settings, Any]] = []
        self._answer = answer
        self._interval = interval

    def strategy(self, name: str = "one") -> Strategy:
        return Strategy(name, "One", self._interval, Settings, lambda _: Settings(), self.plan)

    def plan(self, view: StrategyView, settings: Settings, memory: Any) -> Plan:
        self.calls.append((view.steady, settings, memory))
        found: Plan = self._answer(view, settings, memory)
        return found


class Clock:
    """CPU seconds that pass as they are told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def view(steady: float = 0.0, slo: NodeSLO | None = None) -> StrategyView:
    return StrategyView(1000 + steady, steady, LAYOUT, node=NodeView(slo=slo or SLO))


SLO = NodeSLO()


def slo(**strategies: dict[str, object]) -> NodeSLO:
    return NodeSLO(strategies=strategies)


def desired(*values: int, why: str = "") -> tuple[DesiredValue, ...]:
    return tuple(
        DesiredValue(Target(f"g{number}", "cpu.shares"), value, why)
        for number, value in enumerate(values)
    )


def rounds(*asked: Strategy, clock: Clock | None = None) -> StrategyRunner:
    return StrategyRunner(asked, clock or Clock(), budget_seconds=0.1)


def state(of: StrategyRunner, name: str = "one") -> StrategyState:
    return next(one for one in of.states() if one.name == name)


def test_each_is_asked_at_its_interval_with_what_it_remembered() -> None:
    fast = Asked(lambda view, *_: Plan(memory=view.steady))
    slow = Asked(lambda *_: Plan(), interval=3.0)
    asked = rounds(fast.strategy("fast"), slow.strategy("slow"))
    for steady in range(5):
        asked.decide(view(float(steady)))
    assert [call[0] for call in fast.calls] == [0, 1, 2, 3, 4]
    assert [call[2] for call in fast.calls] == [None, 0, 1, 2, 3]
    assert [call[0] for call in slow.calls] == [0, 3]
    assert asked.next_due == 5.0


def test_rounds_that_were_missed_are_not_made_up_for() -> None:
    one = Asked(lambda *_: Plan())
    asked = rounds(one.strategy())
    for steady in (0.0, 100.0, 100.5, 101.0):
        asked.decide(view(steady))
    assert [call[0] for call in one.calls] == [0, 100, 101]


def test_wishes_stand_between_two_plans_and_claims_do_not() -> None:
    one = Asked(lambda *_: Plan(desired=desired(5), decisions=(Decision("five"),)), interval=10.0)
    asked = rounds(one.strategy())
    first, second = asked.decide(view(0.0)), asked.decide(view(1.0))
    assert (first.planned_now, second.planned_now) == ({"one"}, set())
    assert dict(second.done())["one"].desired == desired(5)
    assert second.decisions == [("one", StrategyMode.ON, Decision("five"))]
    assert second.claims == second.notices == second.deeds == []


def test_a_strategy_that_raises_keeps_what_it_wanted_and_harms_no_other() -> None:
    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady == 1.0:
            raise KeyError("x")
        return Plan(desired=desired(int(view.steady) + 5))

    other = Asked(lambda *_: Plan())
    asked = rounds(Asked(answer).strategy(), other.strategy("other"))
    asked.decide(view(0.0))
    found = asked.decide(view(1.0))
    assert dict(found.done())["one"].desired == desired(5)
    assert found.planned_now == {"other"}
    assert found.problems == ("one failed: KeyError: 'x'",)
    assert (state(asked).failures, state(asked).reason) == (1, "failed: KeyError: 'x'")
    asked.decide(view(2.0))
    assert (state(asked).reason, state(asked).rounds) == ("", 3)
    assert len(other.calls) == 3


def test_signals_of_one_that_fails_count_for_a_minute() -> None:
    signal = StrategySignal("cores", 3.0)

    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady > 0.0:
            raise ValueError("no")
        return Plan(signals=(signal,))

    asked = rounds(Asked(answer).strategy())
    seen = []
    for steady in (0.0, 30.0, 59.0, 61.0):
        asked.decide(view(steady))
        seen.append(asked.signals)
    assert seen == [{"one": (signal,)}] * 3 + [{}]


def test_the_same_failure_is_told_once() -> None:
    def answer(*_: Any) -> Plan:
        raise ValueError("no")

    asked = rounds(Asked(answer).strategy())
    told = [asked.decide(view(float(second))).problems for second in range(4)]
    assert told == [("one failed: ValueError: no",), (), (), ()]
    assert state(asked).failures == 4


def test_trouble_that_comes_and_goes_is_told_again_after_a_long_quiet() -> None:
    def answer(view: StrategyView, *_: Any) -> Plan:
        if view.steady not in (1.0, 3.0, 700.0):
            raise ValueError("no")
        return Plan()

    asked = rounds(Asked(answer).strategy())
    times = (0.0, 1.0, 2.0, 3.0, 99.0, 698.0, 700.0, 1297.0, 1897.0)
    told = [second for second in times if asked.decide(view(second)).problems]
    assert told == [0.0, 1897.0]


def test_what_is_no_plan_is_a_failure() -> None:
    found = rounds(Asked(lambda *_: []).strategy()).decide(view())
    assert found.problems == ("one failed: its plan is a list",)


def test_a_plan_that_took_too_long_is_not_taken() -> None:
    clock = Clock()

    def answer(view: StrategyView, *_: Any) -> Plan:
        clock.now += 0.2 if view.steady == 1.0 else 0.01
        return Plan(desired=desired(int(view.steady)))

    asked = rounds(Asked(answer).strategy(), clock=clock)
    asked.decide(view(0.0))
    found = asked.decide(view(1.0))
    assert dict(found.done())["one"].desired == desired(0)
    assert found.problems == ("one took more than 100 ms of CPU",)
    assert (state(asked).overruns, state(asked).failures) == (1, 0)


def test_a_shadow_is_shown_and_nothing_of_it_is_done() -> None:
    signal = StrategySignal("cores", 3.0)
    plan = Plan(
        desired=desired(5), decisions=(Decision("five"),), deeds=desired(6), signals=(signal,)
    )
    asked = rounds(Asked(lambda *_: plan).strategy())
    found = asked.decide(view(slo=slo(one={"mode": "shadow"})))
    assert list(found.done()) == found.deeds == []
    assert found.decisions == [("one", StrategyMode.SHADOW, Decision("five"))]
    assert (found.signals, asked.signals) == ({"one": (signal,)}, {})
    assert asked.decide(view(1.0)).deeds == [("one", desired(6))]
    assert asked.signals == {"one": (signal,)}


def test_where_nothing_is_written_all_are_shadows_that_hear_of_each_other() -> None:
    signal = StrategySignal("cores", 3.0)
    one = Asked(lambda *_: Plan(desired=desired(5), signals=(signal,)))
    asked = StrategyRunner([one.strategy()], Clock(), shown_only=True)
    found = asked.decide(view())
    assert (list(found.done()), asked.signals) == ([], {"one": (signal,)})
    assert asked.decide(view(1.0, slo(one={"mode": "off"}))).plans == {}


def test_switched_off_it_is_not_asked_and_wants_nothing() -> None:
    one = Asked(lambda *_: Plan(desired=desired(5), memory=1))
    asked = rounds(one.strategy())
    asked.decide(view(0.0))
    found = asked.decide(view(1.0, slo(one={"mode": "off"})))
    assert found.plans == {}
    assert (len(one.calls), state(asked).mode) == (1, StrategyMode.OFF)
    assert state(asked).reason == "switched off by the NodeSLO"
    asked.decide(view(2.0))
    # It begins anew: what it remembered was of another time.
    assert one.calls[-1][2] is None


def test_other_settings_are_asked_about_at_once() -> None:
    one = Asked(lambda *_: Plan(), interval=60.0)
    asked = rounds(one.strategy())
    asked.decide(view(0.0))
    asked.decide(view(1.0, slo(one={"percent": 40})))
    asked.decide(view(2.0, slo(one={"percent": 40})))
    assert [call[:2] for call in one.calls] == [(0, Settings()), (1, Settings(percent=40))]


def test_lines_about_settings_are_told_when_they_are_new() -> None:
    asked = rounds(Asked(lambda *_: Plan()).strategy())
    first = asked.decide(view(0.0, slo(one={"percent": "x"}, two={})))
    second = asked.decide(view(1.0, slo(one={"percent": "x"}, two={})))
    assert len(first.problems) == 2
    assert [line for line in second.problems if "percent" in line] == []


def test_settings_that_cannot_be_read_leave_the_last_in_force() -> None:
    one = Asked(lambda *_: Plan())
    whole = one.strategy()

    def settings(slo: NodeSLO) -> Settings:
        if slo.total_network_bandwidth:
            raise RuntimeError("defect")
        return Settings(percent=1)

    asked = rounds(replace(whole, settings=settings))
    asked.decide(view(0.0))
    found = asked.decide(view(1.0, NodeSLO(total_network_bandwidth=1)))
    assert found.problems == ("one cannot read its settings: RuntimeError: defect",)
    assert state(asked).failures == 1
    assert [call[1].percent for call in one.calls] == [1, 1]


def test_one_whose_settings_were_never_read_says_why_it_is_not_asked() -> None:
    def settings(_: NodeSLO) -> Settings:
        raise RuntimeError("defect")

    one = Asked(lambda *_: Plan())
    asked = rounds(replace(one.strategy(), settings=settings))
    asked.decide(view(0.0))
    asked.decide(view(1.0))
    assert one.calls == []
    assert state(asked).reason == "cannot read its settings: RuntimeError: defect"


def test_one_that_was_given_up_is_not_asked_again_and_its_wishes_stand() -> None:
    meanwhile: list[RoundPlans] = []

    def answer(*_: Any) -> Plan:
        if len(one.calls) == 2:
            assert asked.give_up("one", "has not come back")
            meanwhile.append(asked.decide(view(2.0)))
            assert (state(asked).reason, state(asked).overruns) == ("has not come back", 1)
        return Plan(desired=desired(5))

    one = Asked(answer)
    asked = rounds(one.strategy())
    asked.decide(view(0.0))
    with pytest.raises(AbandonedError):
        asked.decide(view(1.0))
    [found] = meanwhile
    assert (len(one.calls), dict(found.done())["one"].desired) == (2, desired(5))


def test_one_that_has_just_come_back_is_not_given_up() -> None:
    one = Asked(lambda *_: Plan(desired=desired(5)))
    asked = rounds(one.strategy())
    asked.decide(view(0.0))
    assert not asked.give_up("one", "has not come back")
    asked.decide(view(1.0))
    assert (len(one.calls), state(asked).reason, state(asked).overruns) == (2, "", 0)


def test_one_that_comes_back_late_ends_its_round() -> None:
    def answer(*_: Any) -> Plan:
        asked.give_up("one", "late")
        return Plan()

    other = Asked(lambda *_: Plan())
    asked = rounds(Asked(answer).strategy(), other.strategy("other"))
    try:
        asked.decide(view())
    except AbandonedError:
        assert other.calls == []
    else:
        raise AssertionError("the round went on")


def test_one_that_has_come_back_is_asked_again() -> None:
    def answer(*_: Any) -> Plan:
        if len(one.calls) == 1:
            asked.give_up("one", "late")
        return Plan(desired=desired(5))

    one = Asked(answer)
    asked = rounds(one.strategy())
    with pytest.raises(AbandonedError):
        asked.decide(view(0.0))
    found = asked.decide(view(1.0))
    assert dict(found.done())["one"].desired == desired(5)
    assert state(asked).reason == ""


def test_one_that_comes_back_does_not_hide_which_other_is_asked_now() -> None:
    def answer(*_: Any) -> Plan:
        asked.give_up("one", "late")
        asked.running = "other"  # another thread goes on
        return Plan()

    asked = rounds(Asked(answer).strategy())
    with pytest.raises(AbandonedError):
        asked.decide(view())
    assert asked.running == "other"


class TestSameWishes:
    def test_the_same_values_are_the_same_tuple(self) -> None:
        before = desired(1, 2, why="then")
        assert reuse_unchanged(before, desired(1, 2, why="now")) is before

    def test_what_stays_keeps_its_reason(self) -> None:
        before = desired(1, 2, why="then")
        found = reuse_unchanged(before, desired(1, 3, why="now"))
        assert [one.why for one in found] == ["then", "now"]
        assert found[0] is before[0]

    def test_fewer_are_not_the_same(self) -> None:
        before = desired(1, 2)
        assert reuse_unchanged(before, desired(1)) == desired(1)
