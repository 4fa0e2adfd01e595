from dataclasses import replace
from typing import Any

import pytest
from koord_hooks.builtin import coresched
from koord_hooks.runner import load
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


class TestGroups:
    @pytest.mark.parametrize("qos", ["LSE", "LSR", "LS"])
    def test_are_named_by_the_label_and_expellers_have_their_own(self, qos: str) -> None:
        assert group_of(qos, "blue") == BLUE_EXPELLER

    def test_best_effort_pods_expel_nobody(self) -> None:
        assert group_of("BE", "blue") == BLUE

    def test_pods_without_the_label_have_one_together(self) -> None:
        assert group_of("BE") == group_of("BE", "") == CoreSchedGroup(GroupKind.DEFAULT)
        assert group_of("LS") == CoreSchedGroup(GroupKind.DEFAULT, expeller=True)

    def test_an_exclusive_pod_has_its_own(self) -> None:
        assert group_of("LS", "blue", "exclusive") == CoreSchedGroup(GroupKind.POD, "uid-1", True)
        assert group_of("BE", None, "exclusive") == CoreSchedGroup(GroupKind.POD, "uid-1")

    def test_a_pod_may_have_none(self) -> None:
        assert group_of("LS", "blue", "none") == NO_GROUP

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
    def test_no_label_names_another_kind_of_group(
        self, label: str, of_another: dict[str, str]
    ) -> None:
        assert group_of("BE", label) != group_of(**{"qos": "BE", **of_another})

    @pytest.mark.parametrize(
        ("parent", "expels"), [(GUARANTEED, True), (BURSTABLE, True), (BEST_EFFORT, False)]
    )
    def test_a_pod_without_a_class_is_as_kubernetes_class(self, parent: str, expels: bool) -> None:
        assert group_of("", "blue", parent=parent) == (BLUE_EXPELLER if expels else BLUE)

    def test_guaranteed_pods_are_as_lsr_or_else_as_ls(self) -> None:
        quiet = {"enable": True, "coreExpeller": False}
        view = replace(VIEW, slo=slo(lsrClass=quiet, lsClass=ON))
        assert group_of("", "blue", parent=GUARANTEED, view=view) == BLUE
        view = replace(VIEW, slo=slo(lsClass=ON))
        assert group_of("", "blue", parent=GUARANTEED, view=view) == BLUE_EXPELLER

    def test_what_is_not_enabled_has_none(self) -> None:
        assert group_of("BE", "b", view=replace(VIEW, slo=slo(lsClass=ON))) == NO_GROUP
        other = replace(ALL, cpu_policy=CPUPolicy.GROUP_IDENTITY)
        assert group_of("LS", "b", view=replace(VIEW, slo=other)) == NO_GROUP
        assert group_of("LS", "b", view=replace(VIEW, slo=NodeSLO())) == NO_GROUP

    def test_system_pods_are_left_out(self) -> None:
        assert ask("SYSTEM", "blue") is None

    def test_so_is_everything_where_the_kernel_has_no_core_scheduling(self) -> None:
        assert ask("LS", "blue", view=replace(VIEW, kernel=Kernel())) is None

    def test_an_unknown_policy_is_one_line(self) -> None:
        patch = ask("BE", "blue", "strict")
        assert patch is not None
        assert patch.core_sched == BLUE
        [line] = patch.ignored
        assert line == (
            'pod shop/db-0: label koordinator.sh/core-sched-policy is "strict"; '
            "expected none or exclusive (default group kept)"
        )


IDLE_BE = {"enable": True, "schedIdle": 1}


def level(kube_qos: KubeQoS, **more: Any) -> Patch | None:
    return coresched.reconcile_kube_qos(kube_qos, replace(VIEW, **more))


class TestIdleClasses:
    def test_are_idle_where_the_agent_may(self) -> None:
        view = {"slo": slo(beClass=IDLE_BE), "idle_classes": True}
        assert level(KubeQoS.BEST_EFFORT, **view) == Patch(
            knobs={"cpu.idle": 1}, why="BestEffort group, schedIdle 1 → cpu.idle 1"
        )
        burstable = level(KubeQoS.BURSTABLE, **view)
        assert burstable is not None
        assert burstable.knobs == {"cpu.idle": 0}

    def test_are_told_and_have_the_least_weight_where_it_may_not(self) -> None:
        patch = level(KubeQoS.BEST_EFFORT, slo=slo(beClass=IDLE_BE))
        assert patch is not None
        assert patch.knobs == {"cpu.idle": 0}
        assert patch.resources == LinuxResources(cpu_shares=2)
        [line] = patch.ignored
        assert line == (
            "NodeSLO: schedIdle is 1 for the BestEffort group, which is not made idle: "
            "a kubelet cannot restart while the group is idle"
        )

    def test_the_group_above_all_is_never_idle(self) -> None:
        patch = level(KubeQoS.GUARANTEED, slo=slo(lsClass=IDLE_BE), idle_classes=True)
        assert patch is not None
        assert patch.knobs == {"cpu.idle": 0}
        assert "above all classes" in patch.ignored[0]

    def test_what_is_not_enabled_is_not_idle(self) -> None:
        patch = level(KubeQoS.BEST_EFFORT, slo=slo(beClass={"schedIdle": 1}), idle_classes=True)
        assert patch is not None
        assert (patch.knobs, patch.ignored) == ({"cpu.idle": 0}, ())

    def test_a_kernel_without_cpu_idle(self) -> None:
        kernel = Kernel(core_sched=True)
        assert level(KubeQoS.BURSTABLE, kernel=kernel) is None
        patch = level(KubeQoS.BURSTABLE, slo=slo(lsClass=IDLE_BE), kernel=kernel)
        assert patch is not None
        assert patch == Patch(ignored=patch.ignored)

    @pytest.mark.parametrize("kube_qos", KubeQoS)
    def test_are_left_to_the_other_policy(self, kube_qos: KubeQoS) -> None:
        assert level(kube_qos, slo=NodeSLO(), idle_classes=True) is None


class TestSysctls:
    def test_are_set_where_it_is_in_force(self) -> None:
        assert coresched.reconcile_node(VIEW) == NodePatch(
            sysctls={"kernel.sched_core": "1"}, why="cpuPolicy coreSched"
        )
        vendor = Kernel(frozenset({"cpu.bvt_warp_ns"}), core_sched=True)
        patch = coresched.reconcile_node(replace(VIEW, kernel=vendor))
        assert patch is not None
        assert patch.sysctls["kernel.sched_group_identity_enabled"] == "0"

    @pytest.mark.parametrize("more", [{"slo": NodeSLO()}, {"slo": slo()}, {"kernel": Kernel()}])
    def test_are_left_alone_elsewhere(self, more: dict[str, Any]) -> None:
        assert coresched.reconcile_node(replace(VIEW, **more)) is None


def test_it_is_found_by_its_file_name() -> None:
    assert [stage.value for stage in load(["coresched"]).stages()] == ["PreCreateContainer"]
