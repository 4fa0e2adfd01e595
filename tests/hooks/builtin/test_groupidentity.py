import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from koord_hooks.builtin import groupidentity
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_model.keys import ANNOTATION_CPU_QOS, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import ClassQoS, CPUQoS, HostApplication, NodeSLO
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

EVERYWHERE = GUARANTEED, BURSTABLE, BEST_EFFORT


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


def ls(**classes: ClassQoS) -> NodeSLO:
    return NodeSLO(classes={QoSClass(name): one for name, one in classes.items()})


OFF, OTHER = NodeSLO(), enabled("lsrClass", "lsClass", "beClass", policy="coreSched")
ONLY_BE = enabled("beClass")
LS_TWO = ClassQoS(CPUQoS(enable=True, group_identity=2))
LSR_ONE = ClassQoS(CPUQoS(enable=True, group_identity=1))
FIRST, LAST = {"groupIdentity": 2}, {"groupIdentity": -1}


@pytest.mark.parametrize(
    ("qos", "parents", "own", "slo", "identity"),
    [
        # Its class's, whatever its cgroup; without one, that of Kubernetes' class.
        *((qos, (BURSTABLE, BEST_EFFORT), None, ALL, 2) for qos in ("LSE", "LSR", "LS")),
        ("BE", (BURSTABLE, BEST_EFFORT), None, ALL, -1),
        *((qos, (GUARANTEED, BURSTABLE), None, ALL, 2) for qos in ("", "SYSTEM", "GOLD")),
        *((qos, (BEST_EFFORT,), None, ALL, -1) for qos in ("", "SYSTEM", "GOLD")),
        ("", (GUARANTEED,), None, ls(LSR=LSR_ONE, LS=LS_TWO), 1),
        ("", (GUARANTEED,), None, ls(LS=LS_TWO), 2),
        # Only what is enabled.
        *((qos, EVERYWHERE, None, OFF, 0) for qos in ("LSE", "LSR", "LS", "BE", "SYSTEM", "")),
        *((qos, EVERYWHERE, None, OTHER, 0) for qos in ("LSE", "LSR", "LS", "BE", "SYSTEM", "")),
        ("BE", (BURSTABLE,), None, ONLY_BE, -1),
        ("LS", (BURSTABLE,), None, ONLY_BE, 0),
        # An LS pod may choose, also where its class is off, but switches nothing on.
        ("LS", (BURSTABLE,), {"enable": True, **LAST}, ALL, -1),
        ("LS", (BURSTABLE,), LAST, ALL, -1),
        ("LS", (BURSTABLE,), {}, ALL, 2),
        ("LS", (BURSTABLE,), {"enable": False, **LAST}, ALL, 0),
        ("LS", (BURSTABLE,), LAST, ONLY_BE, -1),
        ("LS", (BURSTABLE,), LAST, OFF, 0),
        ("LS", (BURSTABLE,), LAST, OTHER, 0),
        *((qos, (BURSTABLE,), LAST, ALL, 2) for qos in ("LSE", "LSR", "", "SYSTEM")),
        ("BE", (BURSTABLE,), FIRST, ALL, -1),
    ],
)
def test_the_identity_of_a_pod(
    qos: str, parents: tuple[str, ...], own: Any, slo: NodeSLO, identity: int
) -> None:
    for parent in parents:
        view = replace(VENDOR, slo=slo)
        assert knobs(pod(qos, parent, own), view) == {"cpu.bvt_warp_ns": identity}


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ({"groupIdentity": 3}, "groupIdentity is 3; expected -1 to 2"),
        ({"enable": "yes", "groupIdentity": 2}, 'enable is "yes"; expected true or false'),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_what_cannot_be_used_leaves_the_classs(own: Any, line: str) -> None:
    patch = groupidentity.pre_run_pod_sandbox(pod("LS", own=own), VENDOR)
    assert patch is not None
    assert (patch.knobs, patch.why) == (
        {"cpu.bvt_warp_ns": 2},
        "class LS, identity 2 → cpu.bvt_warp_ns 2",
    )
    [reported] = patch.ignored
    assert reported.startswith("pod shop/db-0: annotation koordinator.sh/cpuQOS: ")
    assert line in reported


def test_an_unknown_class_is_reported_once() -> None:
    outcome = load(["groupidentity"]).run(Stage.PRE_RUN_POD_SANDBOX, pod("GOLD"), VENDOR)
    [line] = outcome.patch.ignored
    assert line.startswith('pod shop/db-0: label koordinator.sh/qosClass is "GOLD"; expected one')


@pytest.mark.parametrize(
    ("qos", "parents", "own", "slo", "idle"),
    [
        # Those below best-effort keep their weight: the group above them is idle.
        *((qos, (BEST_EFFORT, "/kubepods/besteffort/pod1"), None, ALL, 0) for qos in ("BE", "")),
        ("BE", (BURSTABLE, GUARANTEED), None, ALL, 1),
        ("LS", (BURSTABLE, GUARANTEED), LAST, ALL, 1),
        *((qos, (BURSTABLE,), None, ALL, 0) for qos in ("LSE", "LSR", "LS", "")),
        ("BE", (BURSTABLE,), None, OFF, 0),
    ],
)
def test_whether_a_pod_is_idle_on_a_mainline_kernel(
    qos: str, parents: tuple[str, ...], own: Any, slo: NodeSLO, idle: int
) -> None:
    for parent in parents:
        asked = pod(qos, parent, own)
        assert knobs(asked, replace(MAINLINE, slo=slo)) == {"cpu.idle": idle}
        assert knobs(asked, replace(MAINLINE, slo=slo, kernel=NEITHER)) == {}


GROUP, WEIGHT = "BestEffort group, identity -1", LinuxResources(cpu_shares=2)
MAY_NOT, NO_KNOB = replace(MAINLINE, idle_classes=False), replace(MAINLINE, kernel=NEITHER)
CEASED = replace(MAINLINE, slo=NodeSLO())
BE_GROUP, OTHERS = (KubeQoS.BEST_EFFORT,), (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE)


@pytest.mark.parametrize(
    ("kube_qos", "view", "knob", "resources", "why"),
    [
        ((KubeQoS.GUARANTEED,), VENDOR, {"cpu.bvt_warp_ns": 0}, None, ""),
        ((KubeQoS.BURSTABLE,), VENDOR, {"cpu.bvt_warp_ns": 2}, None, ""),
        (BE_GROUP, VENDOR, {"cpu.bvt_warp_ns": -1}, None, f"{GROUP} → cpu.bvt_warp_ns -1"),
        (KubeQoS, replace(VENDOR, slo=OTHER), {"cpu.bvt_warp_ns": 0}, None, ""),
        (BE_GROUP, MAINLINE, {"cpu.idle": 1}, None, f"{GROUP} → cpu.idle 1"),
        (
            *(BE_GROUP, MAY_NOT, {"cpu.idle": 0}, WEIGHT),
            f"{GROUP}, a kubelet cannot restart while the group is idle → cpu.idle 0, cpu.shares 2",
        ),
        (
            *(BE_GROUP, NO_KNOB, {}, WEIGHT),
            f"{GROUP}, this kernel has no cpu.idle → cpu.shares 2",
        ),
        (BE_GROUP, CEASED, {"cpu.idle": 0}, WEIGHT, ""),
        (BE_GROUP, replace(CEASED, kernel=NEITHER), {}, None, ""),
        (OTHERS, MAINLINE, {"cpu.idle": 0}, None, ""),
        (OTHERS, NO_KNOB, {}, None, ""),
    ],
)
def test_a_group_of_a_kubernetes_class(
    kube_qos: Iterable[KubeQoS],
    view: NodeView,
    knob: dict[str, int],
    resources: LinuxResources | None,
    why: str,
) -> None:
    for one in kube_qos:
        patch = groupidentity.reconcile_kube_qos(one, view) or Patch()
        assert (patch.knobs, patch.resources) == (knob, resources or LinuxResources())
        assert why in ("", patch.why)


@pytest.mark.parametrize("kube_qos", KubeQoS)
def test_groups_are_left_to_the_other_policy(kube_qos: KubeQoS) -> None:
    assert groupidentity.reconcile_kube_qos(kube_qos, replace(MAINLINE, slo=OTHER)) is None


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
    neither = replace(VENDOR, kernel=NEITHER)
    assert groupidentity.reconcile_host_application(application, neither) is None


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
