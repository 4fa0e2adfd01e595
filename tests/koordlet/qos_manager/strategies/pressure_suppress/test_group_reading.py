"""Groups of latency-sensitive pods, and how they fare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
from koord_model.qos import KubeQoS, QoSClass
from koord_model.service_profile import ServiceProfile
from koord_model.service_targets import Indicator, ServiceTargets
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.strategies.pressure_suppress import indicators
from koordlet.qos_manager.strategies.pressure_suppress.group_reading import (
    GroupReading,
    GroupTarget,
    measure,
    pods_by_target,
)

from tests.support.views import FakeHistory, FakeLatest, pod_view, stats, view

WEB = pod_view("web", qos=QoSClass.LS)
API = pod_view("api", qos=QoSClass.LSR, requests={"cpu": 3000})
PSI = GroupTarget("", Indicator.PSI, 10.0)


def asked(
    waits: Mapping[str, float],
    pods: tuple[PodView, ...] = (WEB, API),
    used: Mapping[str, float] | None = None,
    throttled: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
) -> GroupReading | None:
    history = FakeHistory(
        {("pod_psi", uid, "cpu", "avg10", "some"): stats(0, last) for uid, last in waits.items()}
        | {("pod_psi", uid, "mem", "avg10", "some"): stats(99) for uid in ("web", "api")}
        | {("pod_psi", uid, "cpu", "avg10", "full"): stats(99) for uid in ("web", "api")}
    )
    latest = FakeLatest({}, pod_cpu_usage=used or {}, pod_cpu_throttled=throttled or {})
    node = view(pods=pods, history=history, latest=latest)
    targets, _ = pods_by_target(node, (), PSI)
    values = indicators.values(indicators.ROWS[Indicator.PSI], node, 30.0)
    return measure(node, targets[PSI], values, 0.1, at_least or {})


@pytest.mark.parametrize(
    ("used", "percent"),
    [
        ({"web": 3.0}, math.sqrt((400 + 100) / 2)),
        ({"web": 1.0, "api": 0.5}, math.sqrt((400 + 3 * 100) / 4)),
        ({"web": 1.0, "api": 9.0}, math.sqrt((400 + 9 * 100) / 10)),
        ({}, math.sqrt((0.01 * 400 + 3 * 100) / 3.01)),
    ],
)
def test_pods_count_by_their_cpu(used: dict[str, float], percent: float) -> None:
    found = asked({"web": 20.0, "api": 10.0}, used=used)
    assert found is not None
    assert found.value == pytest.approx(percent)
    assert found[1:] == (2, "ns/web", 20.0, 0)


def test_pods_that_do_not_share_cpus_with_best_effort_pods_are_left_out() -> None:
    def found(**pod: Any) -> GroupReading | None:
        return asked({"p": 8.0}, (pod_view("p", **pod),))

    counted = GroupReading(8.0, 1, "ns/p", 8.0, 0)
    assert found(qos=QoSClass.LSE) == counted
    assert found(kube=KubeQoS.BURSTABLE) == found(kube=KubeQoS.GUARANTEED) == counted
    assert found(qos=QoSClass.BE) is found(qos=QoSClass.SYSTEM) is None
    assert found(qos=QoSClass.LSE, cpuset="0-3") is None
    assert found(qos=QoSClass.LS, runtime_handler="kata-qemu") is None


def test_nothing_is_known_without_measurements() -> None:
    assert asked({}) is None
    assert asked({"gone": 50.0}) is None


def test_a_pod_that_its_own_limit_throttles_is_left_out() -> None:
    assert asked({"web": 80.0, "api": 4.0}, throttled={"web": 0.3, "api": 0.1}) == GroupReading(
        4.0, 1, "ns/api", 4.0, 1
    )


def test_a_victim_of_interference_counts_though_it_does_not_wait() -> None:
    found = asked({"api": 2.0}, at_least={"ns/web": 15.0, "ns/api": 1.0}, used={"web": 3.0})
    assert found is not None
    assert (found.pods, found.worst, found.worst_value) == (2, "ns/web", 15.0)
    assert found.value == pytest.approx(math.sqrt((225 + 4) / 2))


def test_a_pod_is_in_the_group_of_its_annotation_else_of_the_first_service_that_selects_it() -> (
    None
):
    def pod(name: str, app: str, own: str = "") -> PodView:
        annotations = {"koordinator.sh/serviceTargets": own} if own else {}
        return pod_view(name, qos=QoSClass.LS, labels={"app": app}, annotations=annotations)

    shop = ServiceTargets("shop", {"matchLabels": {"app": "shop"}}, "ns", {Indicator.CPI: 1.4})
    every = ServiceTargets("ours", namespace="ns", targets={Indicator.USAGE: 0.8})
    other = ServiceTargets("other", namespace="other", targets={Indicator.USAGE: 0.8})
    waits = '{"service": "shop", "targets": {"sched_wait": %s, "latency": 3}}'
    pods = (
        *(pod("a", "shop"), pod("b", "shop"), pod("c", "mail"), pod("d", "shop", waits % 50)),
        *(pod("e", "shop", waits % '50, "cpi": 2'), pod("f", "shop", waits % 20)),
        pod("g", "shop", waits % -1),
    )
    found, notes = pods_by_target(view(pods=pods), (other, shop, every), PSI)
    assert {target: [pod.uid for pod in of] for target, of in found.items()} == {
        ("shop", Indicator.CPI, 1.4): ["a", "b", "g"],
        ("ours", Indicator.USAGE, 0.8): ["c"],
        ("ns/shop", Indicator.SCHED_WAIT, 50.0): ["d", "e"],
        ("ns/shop", Indicator.CPI, 2.0): ["e"],
        ("ns/shop", Indicator.SCHED_WAIT, 20.0): ["f"],
    }
    assert [note.pod for note in notes] == ["ns/d", "ns/e", "ns/f", "ns/g", "ns/g"]
    assert "targets.latency is 3; expected one of psi, sched_wait, cpi, usage" in notes[0].outcome
    assert "targets.sched_wait is -1; expected a number above 0" in notes[3].outcome


def test_a_profile_goes_before_the_settings_and_leaves_its_baseline_alone() -> None:
    pods = tuple(pod_view(name, qos=QoSClass.LS, labels={"app": "web"}) for name in "ab")
    selector = {"matchLabels": {"app": "web"}}
    profile = ServiceProfile(
        "ns/web", selector, "ns", {Indicator.CPI: 1.4}, baseline=frozenset({"a"})
    )
    settings = ServiceTargets("web", selector, targets={Indicator.USAGE: 0.8})
    node = NodeView(slo=NodeSLO(services=(profile,)))
    found, notes = pods_by_target(view(pods=pods, node=node), (settings,), PSI)
    assert notes == []
    assert {target: [pod.uid for pod in of] for target, of in found.items()} == {
        ("web", Indicator.USAGE, 0.8): ["a"],
        ("ns/web", Indicator.CPI, 1.4): ["b"],
    }


PERCENT = st.floats(0, 100)


@given(PERCENT, PERCENT, st.floats(0, 50), st.floats(0, 50), st.floats(0, 100))
def test_it_lies_between_the_mean_and_the_worst_and_never_falls_as_a_pod_waits_more(
    web: float, api: float, used_by_web: float, used_by_api: float, more: float
) -> None:
    used = {"web": used_by_web, "api": used_by_api}
    found = asked({"web": web, "api": api}, used=used)
    worse = asked({"web": min(web + more, 100.0), "api": api}, used=used)
    assert found is not None
    assert worse is not None
    weights = max(used_by_web, 0.01), max(used_by_api, 3.0)
    mean = (web * weights[0] + api * weights[1]) / sum(weights)
    assert mean - 1e-6 <= found.value <= max(web, api) + 1e-6
    assert found.value <= worse.value + 1e-6
