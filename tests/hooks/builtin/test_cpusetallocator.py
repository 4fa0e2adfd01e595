import json
from typing import Any

import pytest
from koord_hooks.builtin import cpusetallocator
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_model.keys import (
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
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


def test_a_best_effort_pod_with_cpus_of_its_own_keeps_its_quota() -> None:
    own = pod("BE", BEST_EFFORT, {"cpuset": "4"})
    assert cpus(own) == "4"
    assert cpusetallocator.pre_run_pod_sandbox(own, NODE) is None


def test_it_does_not_contradict_batchresource() -> None:
    batch = json.dumps({"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": 500}}}})
    own = pod("BE", BEST_EFFORT, {"cpuset": "4"})
    asked = Pod(
        own.name,
        own.namespace,
        own.uid,
        own.labels,
        {**own.annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC: batch},
        own.cgroup_parent,
    )
    runner = load(["all"])
    for stage, subject in (
        (Stage.PRE_RUN_POD_SANDBOX, asked),
        (Stage.PRE_CREATE_CONTAINER, Container(asked, "main")),
    ):
        outcome = runner.run(stage, subject, NODE)
        assert outcome.conflicts == ()
        assert outcome.patch.resources.cpu_quota == 50_000


@pytest.mark.parametrize("qos", ["LS", "LSR", "SYSTEM", ""])
def test_then_the_pools_of_the_nodes_it_was_placed_on(qos: str) -> None:
    assert cpus(pod(qos, status=ON_NODE_1)) == "8-11"
    assert cpus(pod(qos, status=ON_NODE_1), STATIC) == "8-11"


def test_several_nodes() -> None:
    nodes = [{"node": node, "resources": {"cpu": 1}} for node in (2, 1, 0)]
    assert cpus(pod("LS", status={"numaNodeResources": nodes})) == "0-3,8-11"


def test_a_best_effort_pod_is_not_bound_to_its_nodes() -> None:
    assert cpus(pod("BE", BEST_EFFORT, ON_NODE_1)) == ""


class TestPoolsOfBestEffortPods:
    VIEW = NodeView(
        topology=Topology(shared_pools=POOLS, be_shared_pools=(SharedPool(1, "12-13"),))
    )

    def test_a_best_effort_pod_is_bound_to_those_of_its_nodes(self) -> None:
        patch = of(pod("BE", BEST_EFFORT, ON_NODE_1), self.VIEW)
        assert patch is not None
        assert patch.why == "best-effort pools of NUMA nodes 1 → cpuset 12-13"

    def test_none_on_its_nodes_change_nothing(self) -> None:
        status = {"numaNodeResources": [{"node": 0, "resources": {"cpu": 1}}]}
        assert cpus(pod("BE", BEST_EFFORT, status), self.VIEW) is None

    def test_others_keep_to_theirs(self) -> None:
        assert cpus(pod("LS", status=ON_NODE_1), self.VIEW) == "8-11"
        assert cpus(pod("BE", BEST_EFFORT), self.VIEW) == ""


class TestCPUsThatTheNodeDoesNotHave:
    VIEW = NodeView(topology=Topology(shared_pools=POOLS, online="0-11"))

    def test_are_ignored_and_the_next_rule_decides(self) -> None:
        patch = of(pod("LSR", status={"cpuset": "4,90-91", **ON_NODE_1}), self.VIEW)
        assert patch is not None
        assert patch.resources == LinuxResources(cpuset_cpus="8-11")
        [line] = patch.ignored
        assert line == (
            "pod shop/db-0: annotation scheduling.koordinator.sh/resource-status: cpuset 4,90-91 "
            "names CPUs that this node does not have: 90-91; expected some of 0-11 "
            "(cpuset left out)"
        )

    def test_take_no_quota_away(self) -> None:
        patch = cpusetallocator.pre_run_pod_sandbox(pod(status={"cpuset": "90"}), self.VIEW)
        assert patch is not None
        assert patch.resources == LinuxResources()
        assert len(patch.ignored) == 1

    def test_are_told_where_no_rule_applies(self) -> None:
        view = NodeView(topology=Topology(online="0-11"))
        patch = of(pod("LS", status={"cpuset": "90"}), view)
        assert patch is not None
        assert (patch.resources, len(patch.ignored)) == (LinuxResources(), 1)

    def test_of_a_node_not_known_are_taken_as_they_are(self) -> None:
        assert of(pod(status={"cpuset": "90"}), NODE) == of(pod(status={"cpuset": "90"}), UNKNOWN)


class TestHostApplications:
    def test_ls_ones_have_the_shared_pools(self) -> None:
        application = HostApplication("nginx", QoSClass.LS)
        assert cpusetallocator.reconcile_host_application(application, NODE) == Patch(
            resources=LinuxResources(cpuset_cpus="0-3,8-11"),
            why="LS application nginx, shared pools → cpuset 0-3,8-11",
        )

    @pytest.mark.parametrize("view", [UNKNOWN, EMPTY])
    def test_no_pools_change_nothing(self, view: NodeView) -> None:
        application = HostApplication("nginx", QoSClass.LS)
        assert cpusetallocator.reconcile_host_application(application, view) is None

    @pytest.mark.parametrize("qos", sorted(set(QoSClass) - {QoSClass.LS}))
    def test_others_are_left_alone(self, qos: QoSClass) -> None:
        assert cpusetallocator.reconcile_host_application(HostApplication("a", qos), NODE) is None


def test_then_the_system() -> None:
    assert cpus(pod("SYSTEM")) == "15"
    assert cpus(pod("SYSTEM"), STATIC) is None


def test_then_all_pools_for_ls_whatever_its_cgroup() -> None:
    assert cpus(pod("LS")) == "0-3,8-11"
    assert cpus(pod("LS"), STATIC) == "0-3,8-11"
    assert cpus(pod("LS", BEST_EFFORT)) == "0-3,8-11"


@pytest.mark.parametrize("qos", ["BE", "", "LSR"])
@pytest.mark.parametrize("view", [NODE, STATIC, EMPTY])
def test_then_none_of_its_own_in_the_best_effort_cgroup(qos: str, view: NodeView) -> None:
    assert cpus(pod(qos, BEST_EFFORT), view) == ""


@pytest.mark.parametrize("qos", ["BE", "", "LSR", "LSE"])
def test_then_the_kubelets_own_choice_or_all_pools(qos: str) -> None:
    assert cpus(pod(qos), STATIC) is None
    assert cpus(pod(qos), NODE) == "0-3,8-11"


@pytest.mark.parametrize("asked", [pod("LS"), pod(""), pod("LS", status=ON_NODE_1)])
def test_no_pools_change_nothing(asked: Pod) -> None:
    assert cpus(asked, EMPTY) is None


def test_a_node_whose_pool_is_empty_changes_nothing() -> None:
    status = {"numaNodeResources": [{"node": 2, "resources": {"cpu": 1}}]}
    assert cpus(pod("LS", status=status)) is None


@pytest.mark.parametrize("qos", ["LS", "BE", "SYSTEM", ""])
def test_an_unknown_node_changes_nothing(qos: str) -> None:
    assert cpus(pod(qos, BEST_EFFORT, ON_NODE_1), UNKNOWN) is None


def test_a_pod_without_cpus_of_its_own_keeps_its_quota() -> None:
    assert cpusetallocator.pre_run_pod_sandbox(pod("LSR", status=ON_NODE_1), NODE) is None


@pytest.mark.parametrize("status", [{"cpuset": "all"}, {"cpuset": ["0"]}, "0-3"])
def test_a_malformed_annotation_is_one_line(status: Any) -> None:
    asked = pod("LSR", status=status)
    for view in (NODE, UNKNOWN):
        with pytest.raises(ValueError, match=r"^pod shop/db-0: annotation [^\n]*$"):
            of(asked, view)
    with pytest.raises(ValueError, match=r"^pod shop/db-0: annotation [^\n]*$"):
        cpusetallocator.pre_run_pod_sandbox(asked, NODE)


def test_the_quota_stays_where_the_node_is_told_to_leave_it() -> None:
    view = NodeView(unset_cpu_quota=False)
    own = pod("LSR", status={"cpuset": "4"})
    assert cpusetallocator.pre_run_pod_sandbox(own, view) is None
    assert cpus(own, view) == "4"
