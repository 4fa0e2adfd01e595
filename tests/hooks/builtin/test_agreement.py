"""Our plugins never want different values for one field, whatever the pod and the node."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks import builtin
from koord_hooks.runner import HookResult, load
from koord_hooks.stages import Stage
from koord_model import keys
from koord_model.node import Kernel, NodeView, SharedPool, Topology
from koord_model.node_slo import HostApplication
from koord_model.node_slo_document import parse
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resources import LinuxResources

POD, CREATE = Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER
UPDATE = Stage.PRE_UPDATE_CONTAINER_RESOURCES
OURS = sorted(
    path.stem for path in Path(builtin.__path__[0]).glob("*.py") if not path.stem.startswith("_")
)
RUNNER = load(OURS)

CLASSES = st.sampled_from(["LSE", "LSR", "LS", "BE", "SYSTEM", "", "GOLD"])
PARENTS = st.sampled_from(["/kubepods/pod1", "/kubepods/burstable/pod1", "/kubepods/besteffort/p"])
QUOTAS = st.sampled_from([None, -1, 1000, 100_000])
BATCH = {"requests": {keys.BATCH_CPU: 500}, "limits": {keys.BATCH_CPU: 1000}}
ANNOTATIONS = {
    keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: [{"containers": {"main": BATCH}}],
    keys.ANNOTATION_RESOURCE_STATUS: [
        {"cpuset": "0-1"},
        {"cpuset": "99"},
        {"numaNodeResources": [{"node": 0, "resources": {"cpu": 1}}]},
    ],
    keys.ANNOTATION_CPU_QOS: [{"groupIdentity": -1}, {"enable": False}],
    keys.ANNOTATION_OOM_SCORE_ADJ_SPEC: [{"main": 5}],
}
POLICIES = st.sampled_from(["groupIdentity", "coreSched"])
CPU = st.fixed_dictionaries(
    {
        "enable": st.booleans(),
        "groupIdentity": st.integers(-1, 2),
        "schedIdle": st.integers(0, 1),
        "coreExpeller": st.booleans(),
    }
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    wanted = {key: draw(st.sampled_from([None, *some])) for key, some in ANNOTATIONS.items()}
    return Pod(
        "p",
        "n",
        "u",
        labels={keys.LABEL_QOS: draw(CLASSES)},
        annotations={key: json.dumps(one) for key, one in wanted.items() if one is not None},
        cgroup_parent=draw(PARENTS),
        resources=LinuxResources(cpu_quota=draw(QUOTAS)),
    )


@st.composite
def views(draw: st.DrawFn) -> NodeView:
    classes: dict[str, Any] = {
        name: {"cpuQOS": draw(CPU)} for name in ("lsrClass", "lsClass", "beClass")
    }
    used = {"enable": draw(st.booleans()), "cpuSuppressPolicy": "cfsQuota"}
    policies = {"cpuPolicy": draw(POLICIES)}
    slo, _ = parse(
        {
            "resourceQOSStrategy": {"policies": policies, **classes},
            "resourceUsedThresholdWithBE": used,
        }
    )
    pools = (SharedPool(0, "0-7"),)
    return NodeView(
        topology=draw(st.sampled_from([None, Topology(pools), Topology(pools, online="0-7")])),
        cpu_normalization_ratio=draw(st.sampled_from([0.5, 1.0, 1.5])),
        slo=slo,
        kernel=Kernel(
            knobs=frozenset(draw(st.sets(st.sampled_from(["cpu.bvt_warp_ns", "cpu.idle"])))),
            core_sched=draw(st.booleans()),
        ),
        idle_classes=draw(st.booleans()),
    )


def agreed(outcome: HookResult[Any]) -> bool:
    assert outcome.failures == ()
    return outcome.conflicts == ()


@given(pods(), QUOTAS, views())
def test_about_pods_and_containers(pod: Pod, quota: int | None, view: NodeView) -> None:
    assert agreed(RUNNER.run(Stage.PRE_RUN_POD_SANDBOX, pod, view))
    for name in ("main", ""):
        container = Container(pod, name, resources=LinuxResources(cpu_quota=quota))
        for stage in (Stage.PRE_CREATE_CONTAINER, Stage.PRE_UPDATE_CONTAINER_RESOURCES):
            assert agreed(RUNNER.run(stage, container, view))


@given(st.sampled_from(list(KubeQoS)), st.sampled_from(list(QoSClass)), views())
def test_about_the_node(kube_qos: KubeQoS, qos: QoSClass, view: NodeView) -> None:
    assert agreed(RUNNER.reconcile_kube_qos(kube_qos, view))
    assert agreed(RUNNER.reconcile_host_application(HostApplication("a", qos), view))
    assert agreed(RUNNER.reconcile_node((), view))


STAGES = {
    "batchresource": [POD, CREATE, UPDATE],
    "coresched": [CREATE],
    "cpunormalization": [POD, CREATE, UPDATE],
    "cpusetallocator": [POD, CREATE, UPDATE],
    "gpuenvinject": [CREATE],
    "groupidentity": [POD],
    "numabind": [CREATE, UPDATE],
    "oomscoreadj": [CREATE],
    "rdmadeviceinject": [CREATE],
    "resctrl": [POD, CREATE],
    "resourceplugins": [POD, CREATE, UPDATE],
    "tcnetworkqos": [POD],
    "terwayqos": [],
}


@pytest.mark.parametrize("name", OURS)
def test_each_is_found_by_its_file_name(name: str) -> None:
    assert load([name]).stages() == tuple(STAGES[name])


@pytest.mark.parametrize(
    ("name", "key", "texts"),
    [
        ("batchresource", keys.ANNOTATION_EXTENDED_RESOURCE_SPEC, ["{"]),
        ("cpunormalization", keys.ANNOTATION_RESOURCE_STATUS, ['{"cpuset": "all"}']),
        (
            *("cpusetallocator", keys.ANNOTATION_RESOURCE_STATUS),
            ['{"cpuset": "all"}', '{"cpuset": ["0"]}', '"0-3"'],
        ),
        ("gpuenvinject", keys.ANNOTATION_DEVICE_ALLOCATED, ["{", "[]", "3"]),
    ],
)
def test_a_malformed_annotation_is_one_line(name: str, key: str, texts: list[str]) -> None:
    runner = load([name])
    for text in texts:
        labels = {keys.LABEL_QOS: "BE" if name == "batchresource" else "LS"}
        pod = Pod("p", "n", "u", labels, {key: text}, resources=LinuxResources(cpu_quota=1000))
        container = Container(pod, "main", resources=LinuxResources(cpu_quota=1000))
        for view in (NodeView(cpu_normalization_ratio=1.5), NodeView(Topology(()), 1.5)):
            for stage in STAGES[name]:
                found = runner.run(stage, pod if stage is POD else container, view)
                [line] = found.patch.ignored
                assert line.startswith(f"pod n/p: annotation {key}")
                assert "\n" not in line
                assert found.failures == ()
