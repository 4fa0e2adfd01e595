import json
from typing import Any

import pytest
from koord_hooks.builtin import cpusetallocator
from koord_model.keys import (
    ANNOTATION_RESOURCE_STATUS,
    LABEL_QOS,
)
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.node_slo import HostApplication
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass
from koord_model.resources import LinuxResources

POOLS = (SharedPool(0, "0-3"), SharedPool(1, "8-11"), SharedPool(2, ""))
NODE = NodeView(topology=Topology(shared_pools=POOLS, system_cpuset="15"))
STATIC = NodeView(topology=Topology(shared_pools=POOLS, kubelet_policy="static"))
EMPTY = NodeView(topology=Topology())
UNKNOWN = NodeView()

BEST_EFFORT = "/kubepods.slice/kubepods-besteffort.slice/pod1"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/pod1"
ON_NODE_1 = {"numaNodeResources": [{"node": 1, "resources": {"cpu": "2"}}]}


def pod(qos: str = "", parent: str = BURSTABLE, status: object = None) -> Pod:
    annotations = {} if status is None else {ANNOTATION_RESOURCE_STATUS: json.dumps(status)}
    return Pod("db-0", "shop", "uid", {LABEL_QOS: qos}, annotations, parent)


def of(asked: Pod, view: NodeView) -> Patch | None:
    container = Container(asked, "main")
    patch = cpusetallocator.pre_create_container(container, view)
    assert patch == cpusetallocator.pre_update_container_resources(container, view)
    return patch


def cpus(asked: Pod, view: NodeView = NODE) -> str | None:
    patch = of(asked, view)
    if patch is None:
        return None
    assert patch.resources == LinuxResources(cpuset_cpus=patch.resources.cpuset_cpus)
    assert patch.why
    return patch.resources.cpuset_cpus


@pytest.mark.parametrize("view", [UNKNOWN, EMPTY, NODE, STATIC])
@pytest.mark.parametrize("qos", ["LSE", "LSR", "LS", ""])
def test_cpus_of_its_own_come_first_and_take_the_quota_away(qos: str, view: NodeView) -> None:
    own = pod(qos, status={"cpuset": "4,5", **ON_NODE_1})
    assert of(own, view) == Patch(
        resources=LinuxResources(cpuset_cpus="4-5", cpu_quota=-1),
        why="resource-status gives CPUs 4-5 → cpuset 4-5, quota -1",
    )
    assert cpusetallocator.pre_run_pod_sandbox(own, view) == Patch(
        resources=LinuxResources(cpu_quota=-1),
        why="resource-status gives CPUs 4-5 → quota -1",
    )


def placed(*nodes: int) -> dict[str, Any]:
    """A status that gives CPUs of these NUMA nodes."""
    return {"numaNodeResources": [{"node": n, "resources": {"cpu": "2"}} for n in nodes]}


BE_POOL = SharedPool(1, "12-13")
OF_BE = NodeView(topology=Topology(shared_pools=POOLS, be_shared_pools=(BE_POOL,)))
ALL_POOLS = "0-3,8-11"


@pytest.mark.parametrize(
    ("classes", "parent", "status", "views", "expected"),
    [
        # First its own CPUs, then the pools of the NUMA nodes on which it was placed.
        (("BE",), BEST_EFFORT, {"cpuset": "4"}, (NODE,), "4"),
        (("LS", "LSR", "SYSTEM", ""), BURSTABLE, placed(1), (NODE, STATIC, OF_BE), "8-11"),
        (("LS",), BURSTABLE, placed(2, 1, 0), (NODE,), ALL_POOLS),
        (("LS",), BURSTABLE, placed(2), (NODE,), None),
        # A best-effort pod is bound to those for best-effort pods alone.
        (("BE",), BEST_EFFORT, placed(1), (NODE,), ""),
        (("BE",), BEST_EFFORT, placed(1), (OF_BE,), "12-13"),
        (("BE",), BEST_EFFORT, placed(0), (OF_BE,), None),
        (("BE",), BEST_EFFORT, None, (OF_BE,), ""),
        # Then the system's, all pools for LS, none in the best-effort cgroup.
        (("SYSTEM",), BURSTABLE, None, (NODE,), "15"),
        (("SYSTEM",), BURSTABLE, None, (STATIC,), None),
        (("LS",), BURSTABLE, None, (NODE, STATIC), ALL_POOLS),
        (("LS",), BEST_EFFORT, None, (NODE,), ALL_POOLS),
        (("BE", "", "LSR"), BEST_EFFORT, None, (NODE, STATIC, EMPTY), ""),
        # Then the kubelet's own choice, or all pools.
        (("BE", "", "LSR", "LSE"), BURSTABLE, None, (STATIC,), None),
        (("BE", "", "LSR", "LSE"), BURSTABLE, None, (NODE,), ALL_POOLS),
        # Without pools, or of a node not known, nothing.
        (("LS", ""), BURSTABLE, None, (EMPTY,), None),
        (("LS",), BURSTABLE, placed(1), (EMPTY,), None),
        (("LS", "BE", "SYSTEM", ""), BEST_EFFORT, placed(1), (UNKNOWN,), None),
    ],
)
def test_which_cpus(
    classes: tuple[str, ...],
    parent: str,
    status: dict[str, Any] | None,
    views: tuple[NodeView, ...],
    expected: str | None,
) -> None:
    for qos in classes:
        for view in views:
            assert cpus(pod(qos, parent, status), view) == expected, (qos, view)
            assert cpusetallocator.pre_run_pod_sandbox(pod(qos, parent, status), view) is None


def test_the_reason_names_the_rule_and_the_quota_stays_where_the_node_leaves_it() -> None:
    patch = of(pod("BE", BEST_EFFORT, placed(1)), OF_BE)
    assert patch is not None
    assert patch.why == "best-effort pools of NUMA nodes 1 → cpuset 12-13"
    left, own = NodeView(unset_cpu_quota=False), pod("LSR", status={"cpuset": "4"})
    assert cpusetallocator.pre_run_pod_sandbox(own, left) is None
    assert cpus(own, left) == "4"


ONLINE = NodeView(topology=Topology(shared_pools=POOLS, online="0-11"))


def test_cpus_that_the_node_does_not_have_are_ignored_and_the_next_rule_decides() -> None:
    patch = of(pod("LSR", status={"cpuset": "4,90-91", **ON_NODE_1}), ONLINE)
    assert patch is not None
    assert patch.resources == LinuxResources(cpuset_cpus="8-11")
    [line] = patch.ignored
    assert line == (
        "pod shop/db-0: annotation scheduling.koordinator.sh/resource-status: cpuset 4,90-91 "
        "names CPUs that this node does not have: 90-91; expected some of 0-11 "
        "(cpuset left out)"
    )
    absent, bare = pod("LS", status={"cpuset": "90"}), NodeView(topology=Topology(online="0-11"))
    for patch in (cpusetallocator.pre_run_pod_sandbox(absent, ONLINE), of(absent, bare)):
        assert patch is not None
        assert (patch.resources, len(patch.ignored)) == (LinuxResources(), 1)
    assert of(absent, NODE) == of(absent, UNKNOWN), "of a node not known they are taken as they are"


@pytest.mark.parametrize("qos", QoSClass)
def test_ls_host_applications_have_the_shared_pools(qos: QoSClass) -> None:
    application = HostApplication("nginx", qos)
    expected = Patch(
        resources=LinuxResources(cpuset_cpus=ALL_POOLS),
        why=f"LS application nginx, shared pools → cpuset {ALL_POOLS}",
    )
    found = [
        cpusetallocator.reconcile_host_application(application, view)
        for view in (NODE, UNKNOWN, EMPTY)
    ]
    assert found == [expected if qos is QoSClass.LS else None, None, None]
