"""How much CPU best-effort pods may use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node_slo import HostApplication, NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import StrategyView
from koordlet.qos_manager.strategies.cpu_suppress.suppression_formula import (
    NodeCPULoad,
    Spell,
    SuppressionLimits,
    amount,
    measure,
    remember,
)
from koordlet.qos_manager.suppression.be_advice import Advice

from tests.support.views import FakeLatest, cpu_info, pod_view, view

LOAD = NodeCPULoad(64.0, pods=10.0, applications=2.0, best_effort=5.0, system=3.0, reserved=1.0)
PODS = (
    pod_view("web", qos=QoSClass.LS),
    pod_view("job", qos=QoSClass.BE),
    pod_view("bare", kube=KubeQoS.BEST_EFFORT),
    pod_view("odd", qos=QoSClass.BE, kube=KubeQoS.BURSTABLE),
)
USED = {"web": 10.0, "job": 4.0, "bare": 2.0, "odd": 1.0}
NODE = ("node_cpu_usage",)
GROUP = ("node_be", "cpu", "usage")
APPLICATIONS = (
    HostApplication("db", QoSClass.LS),
    HostApplication("scan", QoSClass.BE, base="KubepodsBesteffort"),
    HostApplication("cold", QoSClass.BE),
)


def seen(latest: FakeLatest, **others: object) -> StrategyView:
    return view(pods=PODS, latest=latest, slo=NodeSLO(host_applications=APPLICATIONS), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "best_effort", "system"),
    [(None, 7.5, 1.5), (3000.0, 7.5, 1.5), (7500.0, 8.5, 0.5), (20_000.0, 21.0, 0.0)],
)
def test_who_uses_the_cpus(group: float | None, best_effort: float, system: float) -> None:
    values = {NODE: 22.0} if group is None else {NODE: 22.0, GROUP: group}
    latest = FakeLatest(
        values,
        cpu_info(64),
        pod_cpu_usage=USED,
        host_application_cpu_usage={"db": 2.0, "scan": 0.5, "cold": 1.0},
    )
    load = measure(seen(latest, reserved_cpu=1.0))
    assert load == pytest.approx((64.0, 10.0, 3.0, best_effort, system, 1.0))


def test_a_pod_that_is_not_known_counts_with_the_system_and_a_node_may_have_none() -> None:
    known = FakeLatest({NODE: 30.0}, cpu_info(64), pod_cpu_usage=USED | {"unknown": 13.0})
    load = measure(seen(known))
    assert isinstance(load, NodeCPULoad)
    assert (load.pods, load.system) == (10.0, 13.0)
    empty = measure(view(latest=FakeLatest({NODE: 1.5}, cpu_info(4))))
    assert empty == (4.0, 0.0, 0.0, 0.0, 1.5, 0.0)


@pytest.mark.parametrize(
    ("latest", "pods_known", "missing"),
    [
        (FakeLatest({NODE: 1.0}, pod_cpu_usage=USED), True, "the node's CPUs"),
        (FakeLatest({NODE: 1.0}, cpu_info(4), pod_cpu_usage=USED), False, "which pods run"),
        (FakeLatest({}, cpu_info(4), pod_cpu_usage=USED), True, "node_cpu_usage"),
        (FakeLatest({NODE: 1.0}, cpu_info(4)), True, "pod_cpu_usage"),
    ],
)
def test_what_is_not_known_is_named(latest: FakeLatest, pods_known: bool, missing: str) -> None:
    assert measure(seen(latest, pods_known=pods_known)) == missing


@pytest.mark.parametrize(
    ("limits", "load", "cores"),
    [
        (SuppressionLimits(65), LOAD, 26.6),
        (SuppressionLimits(65), LOAD._replace(reserved=5.0), 24.6),
        (SuppressionLimits(10), LOAD, 0.0),
        (SuppressionLimits(10, 50), LOAD, 32.0),
        (SuppressionLimits(65, 0, Advice(20.0, "x")), LOAD, 20.0),
        (SuppressionLimits(65, 0, Advice(30.0, "x")), LOAD, 26.6),
        (SuppressionLimits(65, 50, Advice(20.0, "x")), LOAD, 32.0),
    ],
)
def test_amount(limits: SuppressionLimits, load: NodeCPULoad, cores: float) -> None:
    found = amount(load, limits, (), 0.0, 5.0)
    assert found.cores == pytest.approx(cores)
    assert found.least == 64 * limits.floor / 100
    assert ("advised" in found.formula) == (limits.advice is not None)


def test_numbers_are_in_the_order_of_the_formula_and_the_floor_of_now_holds() -> None:
    found = amount(LOAD, SuppressionLimits(65, 5, Advice(20.0, "x")), (), 0.0, 5.0)
    places = [found.formula.find(one.name) for one in found.given[:8]]
    assert -1 not in places
    assert places == sorted(places)
    assert [one.name for one in found.given[8:]] == ["left", "least of 5 s", "cores", "advised by"]
    low = amount(LOAD, SuppressionLimits(10), (), 0.0, 5.0)
    assert amount(LOAD, SuppressionLimits(10, 50), low.spell, 1.0, 5.0).cores == 32.0


def test_less_counts_at_once_and_more_after_some_seconds() -> None:
    spell: Spell = ()
    found = []
    for second, cores in enumerate([10, 4, 9, 8, 12, 12, 12, 12, 12]):
        spell = remember(spell, float(second), float(cores), 3.0)
        found.append(spell[0][1])
    assert found == [10, 4, 4, 4, 8, 8, 12, 12, 12]
    # Without seconds the newest counts.
    assert remember(((1.0, 3.0),), 1.0, 5.0, 0.0) == ((1.0, 5.0),)


@given(st.lists(st.floats(0, 64), min_size=1, max_size=40), st.integers(0, 10))
def test_a_spell_knows_the_least_of_its_seconds(cores: list[float], seconds: int) -> None:
    spell: Spell = ()
    for second, one in enumerate(cores):
        spell = remember(spell, float(second), one, float(seconds))
    assert spell[0][1] == min(cores[-max(seconds, 1) :])
    assert len(spell) <= max(seconds, 1)


@given(st.builds(NodeCPULoad, *[st.floats(0, 256)] * 6), st.floats(0, 64), st.floats(0, 100))
def test_more_load_never_leaves_more(load: NodeCPULoad, more: float, threshold: float) -> None:
    for field in ("pods", "applications", "system", "reserved"):
        heavier = load._replace(**{field: getattr(load, field) + more})
        assert heavier.left(threshold) <= load.left(threshold)
