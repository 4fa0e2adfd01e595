import json
from dataclasses import replace
from typing import Any

import pytest
from koord_hooks.builtin import groupidentity
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_model.keys import ANNOTATION_CPU_QOS, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, CPUPolicy, CPUQoS, HostApplication, NodeSLO
from koord_model.node_slo_document import parse
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resources import LinuxResources

BVT = Kernel(knobs=frozenset({"cpu.bvt_warp_ns", "cpu.idle"}))
IDLE = Kernel(knobs=frozenset({"cpu.idle"}))
NEITHER = Kernel()

GUARANTEED = "/kubepods.slice/kubepods-pod1.slice"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
BEST_EFFORT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice"


def enabled(*names: str, policy: str = "groupIdentity") -> NodeSLO:
    strategy: dict[str, Any] = {name: {"cpuQOS": {"enable": True}} for name in names}
    slo, ignored = parse({"resourceQOSStrategy": {"policies": {"cpuPolicy": policy}, **strategy}})
    assert ignored == ()
    return slo


ALL = enabled("lsrClass", "lsClass", "beClass")
VENDOR = NodeView(slo=ALL, kernel=BVT)
MAINLINE = NodeView(slo=ALL, kernel=IDLE, idle_classes=True)


def pod(qos: str = "", parent: str = BURSTABLE, own: Any = None) -> Pod:
    annotations = {} if own is None else {ANNOTATION_CPU_QOS: json.dumps(own)}
    return Pod("db-0", "shop", "uid", {LABEL_QOS: qos}, annotations, parent)


def knobs(asked: Pod, view: NodeView = VENDOR) -> dict[str, int | str]:
    patch = groupidentity.pre_run_pod_sandbox(asked, view)
    if patch is None:
        return {}
    assert patch == Patch(knobs=patch.knobs, why=patch.why)
    assert patch.why
    return dict(patch.knobs)


def identity(asked: Pod, slo: NodeSLO = ALL) -> int | str:
    return knobs(asked, replace(VENDOR, slo=slo))["cpu.bvt_warp_ns"]


class TestIdentities:
    @pytest.mark.parametrize(("qos", "expected"), [("LSE", 2), ("LSR", 2), ("LS", 2), ("BE", -1)])
    def test_a_pod_has_its_classs(self, qos: str, expected: int) -> None:
        assert identity(pod(qos)) == expected
        assert identity(pod(qos, BEST_EFFORT)) == expected

    @pytest.mark.parametrize("qos", ["", "SYSTEM"])
    @pytest.mark.parametrize(
        ("parent", "expected"), [(GUARANTEED, 2), (BURSTABLE, 2), (BEST_EFFORT, -1)]
    )
    def test_without_a_class_it_has_that_of_kubernetes_class(
        self, qos: str, parent: str, expected: int
    ) -> None:
        assert identity(pod(qos, parent)) == expected

    def test_guaranteed_pods_are_as_lsr_or_else_as_ls(self) -> None:
        classes = {
            QoSClass.LSR: ClassQoS(CPUQoS(enable=True, group_identity=1)),
            QoSClass.LS: ClassQoS(CPUQoS(enable=True, group_identity=2)),
        }
        assert identity(pod(parent=GUARANTEED), NodeSLO(classes=classes)) == 1
        del classes[QoSClass.LSR]
        assert identity(pod(parent=GUARANTEED), NodeSLO(classes=classes)) == 2

    @pytest.mark.parametrize("qos", ["LSE", "LSR", "LS", "BE", "SYSTEM", ""])
    @pytest.mark.parametrize(
        "slo", [NodeSLO(), enabled("lsrClass", "lsClass", "beClass", policy="coreSched")]
    )
    def test_what_is_not_enabled_has_none(self, qos: str, slo: NodeSLO) -> None:
        for parent in (GUARANTEED, BURSTABLE, BEST_EFFORT):
            assert identity(pod(qos, parent), slo) == 0

    def test_a_class_alone_can_be_enabled(self) -> None:
        assert identity(pod("BE"), enabled("beClass")) == -1
        assert identity(pod("LS"), enabled("beClass")) == 0

    def test_the_arithmetic_is_shown(self) -> None:
        patch = groupidentity.pre_run_pod_sandbox(pod("BE"), VENDOR)
        assert patch is not None
        assert patch.why == "class BE, identity -1 → cpu.bvt_warp_ns -1"


class TestAnnotation:
    def test_an_ls_pod_may_choose(self) -> None:
        assert identity(pod("LS", own={"enable": True, "groupIdentity": -1})) == -1

    def test_what_it_does_not_say_counts_as_on(self) -> None:
        assert identity(pod("LS", own={"groupIdentity": -1})) == -1
        assert identity(pod("LS", own={})) == 2

    def test_switched_off_is_none(self) -> None:
        assert identity(pod("LS", own={"enable": False, "groupIdentity": -1})) == 0

    @pytest.mark.parametrize("qos", ["LSE", "LSR", "BE", "", "SYSTEM"])
    def test_others_may_not(self, qos: str) -> None:
        assert identity(pod(qos, own={"groupIdentity": 1})) == identity(pod(qos))

    def test_it_does_not_need_its_own_class_enabled(self) -> None:
        assert identity(pod("LS", own={"groupIdentity": -1}), enabled("beClass")) == -1

    @pytest.mark.parametrize("slo", [NodeSLO(), enabled("lsClass", policy="coreSched")])
    def test_it_does_not_switch_anything_on(self, slo: NodeSLO) -> None:
        assert identity(pod("LS", own={"groupIdentity": -1}), slo) == 0

    @pytest.mark.parametrize(
        ("own", "line"),
        [
            ({"groupIdentity": 3}, "groupIdentity is 3; expected -1 to 2"),
            ({"enable": "yes", "groupIdentity": -1}, 'enable is "yes"; expected true or false'),
            ([], "Expected `object`, got `array`"),
        ],
    )
    def test_what_cannot_be_used_leaves_the_classs(self, own: Any, line: str) -> None:
        patch = groupidentity.pre_run_pod_sandbox(pod("LS", own=own), VENDOR)
        assert patch is not None
        assert patch.knobs == {"cpu.bvt_warp_ns": 2}
        [told] = patch.ignored
        assert told.startswith("pod shop/db-0: annotation koordinator.sh/cpuQOS: ")
        assert line in told


@pytest.mark.parametrize("kernel", [BVT, IDLE, NEITHER])
def test_an_unknown_class_counts_as_none_and_is_told_once(kernel: Kernel) -> None:
    view = NodeView(slo=ALL, kernel=kernel)
    assert knobs(pod("GOLD"), view) == knobs(pod(""), view)
    outcome = load(["groupidentity"]).run(Stage.PRE_RUN_POD_SANDBOX, pod("GOLD"), view)
    [line] = outcome.patch.ignored
    assert line.startswith('pod shop/db-0: label koordinator.sh/qosClass is "GOLD"; expected one')


def test_a_kernel_with_neither_knob_changes_nothing() -> None:
    view = NodeView(slo=ALL, kernel=NEITHER)
    assert groupidentity.pre_run_pod_sandbox(pod("BE", BURSTABLE), view) is None
    assert groupidentity.reconcile_host_application(HostApplication("a", QoSClass.BE), view) is None


class TestMainlinePods:
    @pytest.mark.parametrize("qos", ["BE", ""])
    def test_below_besteffort_keep_their_weight(self, qos: str) -> None:
        assert knobs(pod(qos, BEST_EFFORT), MAINLINE) == {"cpu.idle": 0}
        assert knobs(pod(qos, "/kubepods/besteffort/pod1"), MAINLINE) == {"cpu.idle": 0}

    @pytest.mark.parametrize("parent", [BURSTABLE, GUARANTEED])
    def test_elsewhere_are_idle_themselves(self, parent: str) -> None:
        assert knobs(pod("BE", parent), MAINLINE) == {"cpu.idle": 1}
        assert knobs(pod("LS", parent, {"groupIdentity": -1}), MAINLINE) == {"cpu.idle": 1}

    @pytest.mark.parametrize("qos", ["LSE", "LSR", "LS", ""])
    def test_others_are_not(self, qos: str) -> None:
        assert knobs(pod(qos), MAINLINE) == {"cpu.idle": 0}

    def test_nor_are_those_of_classes_that_are_not_enabled(self) -> None:
        assert knobs(pod("BE"), replace(MAINLINE, slo=NodeSLO())) == {"cpu.idle": 0}


def level(kube_qos: KubeQoS, view: NodeView) -> Patch:
    return groupidentity.reconcile_kube_qos(kube_qos, view) or Patch()


class TestClassGroups:
    @pytest.mark.parametrize(
        ("kube_qos", "expected"),
        [(KubeQoS.GUARANTEED, 0), (KubeQoS.BURSTABLE, 2), (KubeQoS.BEST_EFFORT, -1)],
    )
    def test_have_their_classs_identity(self, kube_qos: KubeQoS, expected: int) -> None:
        assert level(kube_qos, VENDOR).knobs == {"cpu.bvt_warp_ns": expected}
        off = replace(VENDOR, slo=replace(ALL, cpu_policy=CPUPolicy.CORE_SCHED))
        assert level(kube_qos, off).knobs == {"cpu.bvt_warp_ns": 0}

    def test_besteffort_is_idle_where_the_agent_may(self) -> None:
        assert level(KubeQoS.BEST_EFFORT, MAINLINE) == Patch(
            knobs={"cpu.idle": 1}, why="BestEffort group, identity -1 → cpu.idle 1"
        )

    def test_besteffort_has_the_least_weight_where_it_may_not(self) -> None:
        assert level(KubeQoS.BEST_EFFORT, replace(MAINLINE, idle_classes=False)) == Patch(
            knobs={"cpu.idle": 0},
            resources=LinuxResources(cpu_shares=2),
            why=(
                "BestEffort group, identity -1, a kubelet cannot restart while the group is idle "
                "→ cpu.idle 0, cpu.shares 2"
            ),
        )

    def test_and_on_kernels_without_cpu_idle(self) -> None:
        assert level(KubeQoS.BEST_EFFORT, replace(MAINLINE, kernel=NEITHER)) == Patch(
            resources=LinuxResources(cpu_shares=2),
            why="BestEffort group, identity -1, this kernel has no cpu.idle → cpu.shares 2",
        )

    def test_the_others_are_not_idle(self) -> None:
        for kube_qos in (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE):
            patch = level(kube_qos, MAINLINE)
            assert (patch.knobs, patch.resources) == ({"cpu.idle": 0}, LinuxResources())
            assert level(kube_qos, replace(MAINLINE, kernel=NEITHER)) == Patch()

    def test_besteffort_that_ceases_to_be_idle_gets_its_weight_back(self) -> None:
        patch = level(KubeQoS.BEST_EFFORT, replace(MAINLINE, slo=NodeSLO()))
        assert patch.knobs == {"cpu.idle": 0}
        assert patch.resources == LinuxResources(cpu_shares=2)
        off = replace(MAINLINE, slo=NodeSLO(), kernel=NEITHER)
        assert level(KubeQoS.BEST_EFFORT, off) == Patch()

    @pytest.mark.parametrize("kube_qos", KubeQoS)
    def test_are_left_to_the_other_policy(self, kube_qos: KubeQoS) -> None:
        other = replace(MAINLINE, slo=replace(ALL, cpu_policy=CPUPolicy.CORE_SCHED))
        assert groupidentity.reconcile_kube_qos(kube_qos, other) is None


@pytest.mark.parametrize(
    ("qos", "bvt", "idle"),
    [("LSE", 2, 0), ("LSR", 2, 0), ("LS", 2, 0), ("BE", -1, 1), ("SYSTEM", 0, 0), ("", 0, 0)],
)
def test_host_applications_have_their_classs(qos: str, bvt: int, idle: int) -> None:
    application = HostApplication("etl", QoSClass(qos))
    patch = groupidentity.reconcile_host_application(application, VENDOR)
    assert patch is not None
    assert patch.knobs == {"cpu.bvt_warp_ns": bvt}
    assert patch.why == (
        f"host application etl, class {qos or 'none'}, identity {bvt} → cpu.bvt_warp_ns {bvt}"
    )
    patch = groupidentity.reconcile_host_application(application, MAINLINE)
    assert patch is not None
    assert patch.knobs == {"cpu.idle": idle}


class TestSysctls:
    def test_are_set_where_the_kernel_has_identities(self) -> None:
        assert groupidentity.reconcile_node(VENDOR) == NodePatch(
            sysctls={"kernel.sched_group_identity_enabled": "1", "kernel.sched_core": "0"},
            why="cpuPolicy groupIdentity",
        )

    @pytest.mark.parametrize(
        "view",
        [
            MAINLINE,
            NodeView(kernel=BVT),
            NodeView(slo=enabled("lsClass", policy="coreSched"), kernel=BVT),
        ],
    )
    def test_are_left_alone_elsewhere(self, view: NodeView) -> None:
        assert groupidentity.reconcile_node(view) is None


def test_it_is_found_by_its_file_name() -> None:
    runner = load(["groupidentity"])
    assert [stage.value for stage in runner.stages()] == ["PreRunPodSandbox"]
    assert runner.reconcile_node((), VENDOR).patch.sysctls
