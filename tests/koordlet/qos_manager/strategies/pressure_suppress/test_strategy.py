"""A bound for best-effort pods' CPU that follows the pressure of the others."""

from __future__ import annotations

import pytest
from koord_model.node import SharedPool, Topology
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, StrategySignal, StrategyView
from koordlet.qos_manager.strategies.cpu_suppress import strategy as cpu_suppress
from koordlet.qos_manager.strategies.pressure_suppress import strategy as pressure_suppress
from koordlet.qos_manager.strategies.pressure_suppress.strategy import Settings

from tests.support.views import STEADY, FakeHistory, FakeLatest, cpu_info, pod_view, stats, view

ON = Settings(enable=True)
PODS = pod_view("web", qos=QoSClass.LS), pod_view("job", qos=QoSClass.BE)
PSI = ("pod_psi", "web", "cpu", "avg10", "some")
LIMIT = ("node_be", "cpu", "real-limit")


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
    for part in ("target 10 %", "waiting 35 %", "e -2.2", "worst ns/web 35 %"):
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
