"""A bound for best-effort pods' CPU that follows the pressure of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node import SharedPool, Topology
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.service_targets import Indicator, ServiceTargets
from koordlet.qos_manager.core.settings import StrategySettings, parse_settings
from koordlet.qos_manager.core.strategy import Plan, Strategy, StrategySignal, StrategyView
from koordlet.qos_manager.strategies.cpu_suppress import strategy as cpu_suppress
from koordlet.qos_manager.strategies.pressure_suppress import strategy as pressure_suppress
from koordlet.qos_manager.strategies.pressure_suppress.strategy import Settings

from tests.support.formulas import wrong
from tests.support.views import STEADY, FakeHistory, FakeLatest, cpu_info, pod_view, stats, view

ON = Settings(enable=True)
PODS = pod_view("web", qos=QoSClass.LS), pod_view("job", qos=QoSClass.BE)
PSI = ("pod_psi", "web", "cpu", "avg10", "some")
LIMIT = ("node_be", "cpu", "real-limit")
SHOP: dict[str, object] = {"matchLabels": {"app": "shop"}}


def seen(
    waits: float | None,
    steady: float = STEADY,
    cpus: int = 64,
    limit: float | None = None,
    signals: dict[str, tuple[StrategySignal, ...]] | None = None,
    web: float = 20.0,
) -> StrategyView:
    """Pod web waits for so much of the time; best-effort pods may use ``limit`` cores."""
    values = {("node_cpu_usage",): web + 2}
    if limit is not None:
        values[LIMIT] = limit * 1000
    used = {"web": web, "job": 2.0}
    infos = (cpu_info(cpus),) if cpus else ()
    return view(
        pods=PODS,
        steady=steady,
        history=FakeHistory({} if waits is None else {PSI: stats(waits)}),
        latest=FakeLatest(values, *infos, pod_cpu_usage=used),
        signals=signals or {},
        topology=Topology((SharedPool(0, "0-63"),)),
    )


def bound(plan: Plan) -> float | None:
    return next((one.value for one in plan.signals if one.name == "be_cpu_cores"), None)


def outcome(plan: Plan) -> str:
    [decision] = plan.decisions
    return decision.outcome


def rounds(waits: list[float], limit: float | None = None, settings: Settings = ON) -> list[Plan]:
    """One plan each 10 s."""
    memory, plans = None, []
    for index, one in enumerate(waits):
        at = seen(one, STEADY + 10 * index, limit=limit)
        plans.append(pressure_suppress.plan(at, settings, memory))
        memory = plans[-1].memory
    return plans


@pytest.mark.parametrize(
    ("at", "settings", "said"),
    [
        (seen(50.0), Settings(), "not held down"),
        (seen(50.0, cpus=0), ON, "no bound: the node's CPUs are not known"),
        (seen(None), ON, "no bound: of no latency-sensitive pod"),
    ],
    ids=["off", "CPUs", "pressure"],
)
def test_nothing_is_published_of_what_is_not_known(
    at: StrategyView, settings: Settings, said: str
) -> None:
    plan = pressure_suppress.plan(at, settings, rounds([50.0])[-1].memory)
    assert (plan.signals, plan.desired, plan.memory) == ((), (), None)
    assert said in outcome(plan)


def test_it_falls_from_what_is_in_force_and_rises_slowly() -> None:
    idle = rounds([2.0] * 4)
    assert [bound(one) for one in idle] == [64.0] * 4
    assert {outcome(one).rsplit(": ")[-1] for one in idle} == {"no bound for best-effort pods"}
    plans = rounds([35.0, 35.0, 35.0, 9.0, 1.0, 1.0], limit=21.0)
    # e = −2.2; when it is gone, what the proportional part took is given back.
    falls, back, rise = 64 * 0.002 * 2.2 * 10, 64 * 0.01 * 2.2, 64 * 0.002 * 0.6 * 10
    expected = [64.0, 21 - falls, 21 - 2 * falls, 21 - 2 * falls + back]
    assert [bound(one) for one in plans[:4]] == pytest.approx(expected)
    assert (bound(plans[5]) or 0) - (bound(plans[4]) or 0) == pytest.approx(rise)
    said = ["get less"] * 3 + ["the bound stays"] + ["get more again"] * 2
    assert all(outcome(one).endswith(words) for one, words in zip(plans, said, strict=True))
    for part in ("target 10 %", "measured 35 %", "e -2.2", "worst ns/web 35 %"):
        assert part in str(plans[1].decisions[0])


def test_the_floor_is_kept() -> None:
    assert bound(rounds([100.0] * 60)[-1]) == 2.0
    assert bound(rounds([100.0] * 60, settings=Settings(True, min_percent=25))[-1]) == 16.0
    assert bound(pressure_suppress.plan(seen(90.0, cpus=1), ON, None)) == 1.0


OUTLIERS = {
    "interference": (
        StrategySignal("cpi_outlier", 3.5, "ns/web"),
        StrategySignal("cpi_outlier", 9.0, "ns/job"),
        StrategySignal("psi_outlier", 9.0, "ns/web"),
    )
}


@pytest.mark.parametrize(
    ("factor", "waits", "percent"),
    [
        (2, 1.0, 20.0),
        (3, 1.0, 30.0),
        (3, 44.0, 44.0),
        (0, 1.0, 1.0),
        (2, None, 20),
        (0, None, None),
    ],
)
def test_pods_that_suffer_in_caches_count_as_waiting(
    factor: float, waits: float | None, percent: float | None
) -> None:
    settings = Settings(enable=True, outlier_factor=factor)
    plan = pressure_suppress.plan(seen(waits, signals=OUTLIERS), settings, None)
    found = {one.name: one.value for one in plan.signals}
    assert found.get("ls_waiting_percent") == percent


SERVICES = (
    ServiceTargets("shop", SHOP, targets={Indicator.SCHED_WAIT: 50.0, Indicator.CPI: 1.4}),
    ServiceTargets("mail", {"matchLabels": {"app": "mail"}}, targets={Indicator.USAGE: 0.8}),
)
WAIT, USED = ("pod_cpu_sched_wait", "shop"), ("pod_cpu_usage", "mail")
USES = {("node_cpu_usage",): 20.0, ("node_be", "cpu", "usage"): 4000.0}
CYCLES = ("container_cpi", "shop", "shop-main", "cycle")
DONE = ("container_cpi", "shop", "shop-main", "instruction")


def fares(wait: float, cycles: float, used: float, waits: float) -> StrategyView:
    """Pods shop and mail have targets, web has none of its own."""
    labelled = [
        pod_view(name, qos=QoSClass.LS, labels={"app": name}, requests={"cpu": 4000})
        for name in ("shop", "mail")
    ]
    series = {WAIT: wait, CYCLES: cycles, DONE: 1e9, USED: used, PSI: waits}
    return view(
        pods=(*PODS, *labelled),
        history=FakeHistory({key: stats(value) for key, value in series.items()}),
        latest=FakeLatest(USES, cpu_info(64), pod_cpu_usage={"mail": 3.0}),
    )


def test_the_least_bound_of_all_groups_applies_and_is_named() -> None:
    settings = Settings(True, services=SERVICES)
    first = pressure_suppress.plan(fares(100.0, 1.5e9, 3.0, 35.0), settings, None)

    def later(*values: float) -> Plan:
        at = replace(fares(*values), steady=STEADY + 10)
        return pressure_suppress.plan(at, settings, first.memory)

    moved, calm = later(100.0, 1.5e9, 3.0, 35.0), later(20.0, 1.5e9, 3.0, 35.0)
    binds, *decisions = moved.decisions
    # 100 of 50 / 1.09, 1.5 of 1.4 / 1.03, 35 of 10, less the deadband; 3 of 4 CPUs: room. Of what
    # services leave, the others use 16.
    errors = ((100 / 50 * 1.09 - 1) / 0.3 - 0.3, (1.5 / 1.4 * 1.03 - 1) / 0.1 - 0.3, 2.5 - 0.3)
    wait, cpi, psi = (64 * (1 - 0.02 * error) for error in errors)
    assert binds.outcome == "the least bound is by sched_wait of service shop"
    assert bound(moved) == pytest.approx(wait - 16)
    assert {one.aspect: one.given[17].value for one in decisions} == pytest.approx(
        {
            "shop sched_wait 50": wait - 16,
            "shop cpi 1.4": cpi - 16,
            "mail usage 0.8": 48.0,
            "": psi,
        }
    )
    assert calm.decisions[0].outcome == "the least bound is by cpi of service shop"
    assert bound(calm) == pytest.approx(cpi - 16)
    assert [line for one in moved.decisions for line in wrong(one)] == []


def test_an_indicator_without_a_value_or_at_0_has_no_opinion() -> None:
    settings = Settings(True, services=SERVICES)
    plan = pressure_suppress.plan(fares(0.0, 0.0, 0.0, 0.0), settings, None)
    assert {one.aspect for one in plan.decisions if "not measured" in one.outcome} == {
        "shop sched_wait 50",
        "shop cpi 1.4",
        "mail usage 0.8",
    }
    assert bound(plan) == 64.0, "nobody waits: 0 is a value of psi"


ANY = st.one_of(st.floats(), st.sampled_from([0.0, 1e300, 5e-324]))


@given(st.lists(st.tuples(ANY, ANY, ANY, ANY), min_size=1, max_size=4))
def test_whatever_is_measured_the_bound_is_a_number_in_its_range(
    run: list[tuple[float, float, float, float]],
) -> None:
    memory = None
    for index, values in enumerate(run):
        at = replace(fares(*values), steady=STEADY + 10 * index)
        plan = pressure_suppress.plan(at, Settings(True, services=SERVICES), memory)
        memory = plan.memory
        assert 2 <= (bound(plan) or 64.0) <= 64


def test_services_are_read_from_the_settings_and_a_bad_one_is_named() -> None:
    strategy = Strategy(
        "pressure_suppress",
        "",
        10,
        Settings,
        pressure_suppress.settings,
        pressure_suppress.plan,
    )
    good = {"name": "shop", "selector": SHOP, "targets": {"sched_wait": 50, "cpi": 1.4}}

    def read(*services: object) -> StrategySettings:
        given = {"pressure_suppress": {"services": list(services)}}
        return parse_settings(strategy, NodeSLO(strategies=given))

    assert read(good).settings.services == SERVICES[:1]
    for bad, said in (
        ({**good, "targets": {"sched_wiat": 50}}, "invalid enum value 'sched_wiat'"),
        ({**good, "targets": {"cpi": 0}}, "expected float > 0.0"),
        ({**good, "selector": {"app": "shop"}}, "selector.app is unknown"),
        ({**good, "name": ""}, "length >= 1"),
    ):
        found = read(good, bad)
        assert found.settings.services == ()
        assert said in found.ignored[0]


@pytest.mark.parametrize("knee", [8.0, 15.0, 30.0])
def test_both_strategies_together_settle(knee: float) -> None:
    """Pods wait as soon as best-effort pods have more than ``knee`` cores."""
    hold, press = cpu_suppress.Settings(enable=True), None
    suppress, cores, measured = None, 64.0, 0.0
    signals: dict[str, tuple[StrategySignal, ...]] = {}
    history = []
    for second in range(1800):
        if second % 10 == 0:
            measured = 0.37 * measured + 0.63 * min(max(5 + 3 * (cores - knee), 0), 100)
            at = seen(measured, STEADY + second, limit=cores)
            plan = pressure_suppress.plan(at, ON, press)
            press, signals = plan.memory, {"pressure_suppress": plan.signals}
        at = seen(None, STEADY + second, signals=signals)
        held = cpu_suppress.plan(at, hold, suppress)
        suppress, cores = held.memory, held.signals[0].value
        history.append(cores)
    # 64 × 65 % − 20 leave 22 by the threshold alone.
    expected = min(knee + 5 / 3, 22)
    assert cores == pytest.approx(expected, abs=2)
    assert max(history[-300:]) - min(history[-300:]) <= 1
