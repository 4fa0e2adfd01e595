from dataclasses import replace
from typing import Any

import pytest
from koord_hooks.builtin import coresched
from koord_model.core_sched import NO_GROUP, CoreSchedGroup, GroupKind
from koord_model.keys import LABEL_CORE_SCHED_GROUP, LABEL_CORE_SCHED_POLICY, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import CPUPolicy, NodeSLO
from koord_model.node_slo_document import parse
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koord_model.resources import LinuxResources

GUARANTEED = "/kubepods/pod1"
BURSTABLE = "/kubepods/burstable/pod1"
BEST_EFFORT = "/kubepods/besteffort/pod1"
ON = {"enable": True}


def slo(**classes: Any) -> NodeSLO:
    strategy: dict[str, Any] = {name: {"cpuQOS": cpu} for name, cpu in classes.items()}
    policies = {"cpuPolicy": "coreSched"}
    read, ignored = parse({"resourceQOSStrategy": {"policies": policies, **strategy}})
    assert ignored == ()
    return read


ALL = slo(lsrClass=ON, lsClass=ON, beClass=ON)
VIEW = NodeView(slo=ALL, kernel=Kernel(frozenset({"cpu.idle"}), core_sched=True))


def ask(
    qos: str = "LS",
    group: str | None = None,
    policy: str | None = None,
    parent: str = BURSTABLE,
    uid: str = "uid-1",
    view: NodeView = VIEW,
) -> Patch | None:
    labels = {LABEL_QOS: qos, LABEL_CORE_SCHED_GROUP: group, LABEL_CORE_SCHED_POLICY: policy}
    there = {key: value for key, value in labels.items() if value is not None}
    pod = Pod("db-0", "shop", uid, there, {}, parent)
    patch = coresched.pre_create_container(Container(pod, "main"), view)
    assert patch == coresched.pre_create_container(Container(pod, ""), view), "the sandbox is alike"
    return patch


def group_of(*args: Any, **more: Any) -> CoreSchedGroup | None:
    patch = ask(*args, **more)
    assert patch is not None
    assert patch == Patch(core_sched=patch.core_sched, why=patch.why)
    assert patch.why
    return patch.core_sched


BLUE = CoreSchedGroup(GroupKind.LABEL, "blue")
BLUE_EXPELLER = replace(BLUE, expeller=True)
TOGETHER = CoreSchedGroup(GroupKind.DEFAULT)
ALONE = CoreSchedGroup(GroupKind.POD, "uid-1")
QUIET = slo(lsrClass={"enable": True, "coreExpeller": False}, lsClass=ON)
OTHER_POLICY = replace(ALL, cpu_policy=CPUPolicy.GROUP_IDENTITY)


@pytest.mark.parametrize(
    ("qos", "group", "policy", "parent", "rules", "expected"),
    [
        # Named by the label; expellers have their own, best-effort pods expel nobody.
        *((qos, "blue", None, BURSTABLE, ALL, BLUE_EXPELLER) for qos in ("LSE", "LSR", "LS")),
        ("BE", "blue", None, BURSTABLE, ALL, BLUE),
        # Pods without the label have one together, an exclusive pod its own.
        *(("BE", group, None, BURSTABLE, ALL, TOGETHER) for group in (None, "")),
        ("LS", None, None, BURSTABLE, ALL, replace(TOGETHER, expeller=True)),
        ("LS", "blue", "exclusive", BURSTABLE, ALL, replace(ALONE, expeller=True)),
        ("BE", None, "exclusive", BURSTABLE, ALL, ALONE),
        ("LS", "blue", "none", BURSTABLE, ALL, NO_GROUP),
        # A pod without a class is as Kubernetes' class; guaranteed ones as LSR or else as LS.
        ("", "blue", None, GUARANTEED, ALL, BLUE_EXPELLER),
        ("", "blue", None, BURSTABLE, ALL, BLUE_EXPELLER),
        ("", "blue", None, BEST_EFFORT, ALL, BLUE),
        ("", "blue", None, GUARANTEED, QUIET, BLUE),
        ("", "blue", None, GUARANTEED, slo(lsClass=ON), BLUE_EXPELLER),
        # What is not enabled has none.
        ("BE", "blue", None, BURSTABLE, slo(lsClass=ON), NO_GROUP),
        ("LS", "blue", None, BURSTABLE, OTHER_POLICY, NO_GROUP),
        ("LS", "blue", None, BURSTABLE, NodeSLO(), NO_GROUP),
    ],
)
def test_the_group_of_a_pod(
    qos: str,
    group: str | None,
    policy: str | None,
    parent: str,
    rules: NodeSLO,
    expected: CoreSchedGroup,
) -> None:
    assert group_of(qos, group, policy, parent, view=replace(VIEW, slo=rules)) == expected


@pytest.mark.parametrize(
    ("label", "of_another"),
    [
        ("victim", {"policy": "exclusive", "uid": "victim"}),
        ("db-expeller", {"qos": "LS", "group": "db"}),
        ("victim-expeller", {"qos": "LS", "policy": "exclusive", "uid": "victim"}),
        ("(default)", {}),
        ("default", {}),
        ("none", {"policy": "none"}),
    ],
)
def test_no_label_names_another_kind_of_group(label: str, of_another: dict[str, str]) -> None:
    assert group_of("BE", label) != group_of(**{"qos": "BE", **of_another})


def test_system_pods_and_kernels_without_core_scheduling_are_left_out() -> None:
    assert ask("SYSTEM", "blue") is None
    assert ask("LS", "blue", view=replace(VIEW, kernel=Kernel())) is None


def test_an_unknown_policy_is_one_line() -> None:
    patch = ask("BE", "blue", "strict")
    assert patch is not None
    assert patch.core_sched == BLUE
    assert patch.ignored == (
        (
            'pod shop/db-0: label koordinator.sh/core-sched-policy is "strict"; '
            "expected none or exclusive (default group kept)"
        ),
    )


IDLE_BE = {"enable": True, "schedIdle": 1}
MAY, MAY_NOT = replace(VIEW, idle_classes=True), VIEW
NO_KNOB = replace(VIEW, kernel=Kernel(core_sched=True))
BE, LS_ALL = slo(beClass=IDLE_BE), slo(lsClass=IDLE_BE)


@pytest.mark.parametrize(
    ("kube_qos", "rules", "view", "knobs", "shares", "reported"),
    [
        (KubeQoS.BEST_EFFORT, BE, MAY, {"cpu.idle": 1}, None, ""),
        (KubeQoS.BURSTABLE, BE, MAY, {"cpu.idle": 0}, None, ""),
        (
            *(KubeQoS.BEST_EFFORT, BE, MAY_NOT, {"cpu.idle": 0}, 2),
            (
                "NodeSLO: schedIdle is 1 for the BestEffort group, which is not made idle: "
                "a kubelet cannot restart while the group is idle"
            ),
        ),
        (KubeQoS.GUARANTEED, LS_ALL, MAY, {"cpu.idle": 0}, None, "above all classes"),
        (KubeQoS.BEST_EFFORT, slo(beClass={"schedIdle": 1}), MAY, {"cpu.idle": 0}, 2, ""),
        (KubeQoS.BURSTABLE, LS_ALL, NO_KNOB, {}, None, "schedIdle"),
        (KubeQoS.BURSTABLE, ALL, NO_KNOB, None, None, ""),
        *((kube_qos, NodeSLO(), MAY, None, None, "") for kube_qos in KubeQoS),
    ],
)
def test_idle_classes(
    kube_qos: KubeQoS,
    rules: NodeSLO,
    view: NodeView,
    knobs: dict[str, int] | None,
    shares: int | None,
    reported: str,
) -> None:
    patch = coresched.reconcile_kube_qos(kube_qos, replace(view, slo=rules))
    if knobs is None:
        assert patch is None
        return
    assert patch is not None
    assert (patch.knobs, patch.resources) == (knobs, LinuxResources(cpu_shares=shares))
    assert len(patch.ignored) == bool(reported)
    assert reported in "".join(patch.ignored)
    if knobs == {"cpu.idle": 1}:
        assert patch.why == "BestEffort group, schedIdle 1 → cpu.idle 1"


def test_sysctls_are_set_where_it_is_in_force() -> None:
    assert coresched.reconcile_node(VIEW) == NodePatch(
        sysctls={"kernel.sched_core": "1"}, why="cpuPolicy coreSched"
    )
    vendor = Kernel(frozenset({"cpu.bvt_warp_ns"}), core_sched=True)
    patch = coresched.reconcile_node(replace(VIEW, kernel=vendor))
    assert patch is not None
    assert patch.sysctls["kernel.sched_group_identity_enabled"] == "0"
    for elsewhere in (
        replace(VIEW, slo=NodeSLO()),
        replace(VIEW, slo=slo()),
        replace(VIEW, kernel=Kernel()),
    ):
        assert coresched.reconcile_node(elsewhere) is None
