"""Weights of services."""

from __future__ import annotations

import pytest
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.service_profile import ServiceProfile
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.strategies import cpu_weight
from koordlet.qos_manager.strategies.cpu_weight import ServiceWeight, Settings

from tests.support.formulas import wrong
from tests.support.views import FakeCgroups, pod_view, view

WEB = {"matchLabels": {"app": "web"}}
SETTINGS = Settings(
    (ServiceWeight("web", WEB, "ns", 4), ServiceWeight("all", namespace="ns", cores=0.001))
)


def web(name: str = "web", qos: QoSClass = QoSClass.LS, **more: object) -> PodView:
    return pod_view(name, qos=qos, labels={"app": "web"}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pod", "shares"),
    [
        (web(), 4096),
        (pod_view("other", qos=QoSClass.LSR), 2),
        (web(qos=QoSClass.BE), None),
        (web(runtime_handler="kata-qemu"), None),
        (web("idle"), None),
    ],
)
def test_a_pod_has_the_weight_of_the_first_service_that_selects_it(
    pod: PodView, shares: int | None
) -> None:
    cgroups = FakeCgroups({(web("idle").group, "cpu.idle"): 1})
    plan = cpu_weight.plan(view(pods=[pod], cgroups=cgroups), SETTINGS, None)
    expected = [] if shares is None else [(pod.group, "cpu.shares", shares)]
    assert [(*one.target, one.value) for one in plan.desired] == expected
    assert [line for one in plan.decisions for line in wrong(one)] == []
    assert len(plan.decisions) == len(expected)


def test_a_profile_goes_before_the_settings_and_leaves_its_baseline_alone() -> None:
    profile = ServiceProfile(
        "ns/web", WEB, "ns", weight_cores=8.0, weight_baseline=frozenset({"first"})
    )
    slo = NodeSLO(services=(profile,))
    plan = cpu_weight.plan(view(pods=[web("first"), web("second")], slo=slo), SETTINGS, None)
    assert [wanted.value for wanted in plan.desired] == [4096, 8192]
    assert "pods of ns/web compete" in plan.decisions[1].outcome


def test_nothing_is_desired_without_settings() -> None:
    assert cpu_weight.plan(view(pods=[web()]), Settings(), None).desired == ()
