"""Defragmentation moves pods for a job that waits only if the job can start then."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from koord_descheduler.planner.budgets import MoveLimit, of_namespace
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.plugins.defragmentation.args import DefragmentationArgs, MoveCosts
from koord_descheduler.plugins.defragmentation.move_cost import ANNOTATION_CHECKPOINT, move_cost
from koord_descheduler.plugins.defragmentation.plugin import Defragmentation
from koord_model.keys import (
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
)
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config

from tests.descheduler.clusters import NOW, TestCluster, node, pod
from tests.support.gangs import gang_annotations

GANG_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}
"""


def plugin(**args: Any) -> Defragmentation:
    return Defragmentation(msgspec.convert(args, DefragmentationArgs))


def moves(plan: RoundPlan) -> list[tuple[str, str]]:
    return [(move.pod.name, move.target) for move in plan.moves]


@pytest.fixture
def cluster() -> TestCluster:
    """Two nodes with four CPUs free each, and a pod that waits for seven."""
    found = TestCluster()
    found.put(node("a"), node("b"), pod("small", "a", cpu="1"), pod("other", "a", cpu="3"))
    found.put(pod("large", "b", cpu="4"), pod("waits", cpu="5", owner=None))
    return found


def test_pods_move_so_that_one_that_waits_has_room(cluster: TestCluster) -> None:
    plan = cluster.round(plugin())
    assert moves(plan) == [("other", "b")]
    assert plan.moves[0].is_pinned
    assert plan.moves[0].group == "Defragmentation/default/waits"
    assert plan.moves[0].arithmetic["gained"] == "1 on a"
    assert plan.notes["test/Defragmentation/default/waits"]["nodes"] == {"default/waits": "a"}


def test_room_is_worth_the_part_of_the_resource_that_is_needed_most() -> None:
    """Units of an extended resource are no cards that DeviceShare knows."""

    def asking(amount: int) -> dict[str, Any]:
        resources = {"cpu": "100m", "example.com/npu": str(amount)}
        return {
            "containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]
        }

    cluster = TestCluster()
    for name in ("a", "b"):
        cluster.put(node(name, allocatable={"example.com/npu": "8"}))
        cluster.put(pod(f"runs-on-{name}", name, spec=asking(2)))
    cluster.put(pod("waits", owner=None, spec=asking(8)))
    plan = cluster.round(plugin())
    assert len(plan.moves) == 1
    assert plan.moves[0].arithmetic["value"] == 1.5


def test_the_budget_of_a_plan_holds_for_all_its_moves(cluster: TestCluster) -> None:
    cluster.put(pod("waits", cpu="8", owner=None), node("c", cpu="1"))
    assert len(cluster.round(plugin(maxMoves=2)).moves) in (1, 2)
    cluster.put(pod("large2", "b", cpu="1"), pod("large", "b", cpu="3"))
    plan = cluster.round(plugin(maxMoves=1))
    assert not plan.moves
    why = plan.notes["test/Defragmentation/default/waits"]["why"]
    assert why == "at most 1 moves make no room for 1 of 1"


def test_limits_of_the_round_refuse_a_set_as_a_whole(cluster: TestCluster) -> None:
    limit = MoveLimit("maxNoOfPodsToEvictPerNamespace", 0, of_namespace)
    plan = cluster.round(plugin(), limits=[limit])
    assert not plan.moves
    assert {refusal.rule for refusal in plan.refusals} == {"Budget"}


def test_disruption_budgets_hold(cluster: TestCluster) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "app"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cluster.put(budget)
    assert not cluster.round(plugin()).moves


def test_a_protected_pod_in_the_way_is_named(cluster: TestCluster) -> None:
    for name, cpu in (("small", "1"), ("other", "3")):
        cluster.put(pod(name, "a", cpu=cpu, spec={"priority": 2_000_000_001}))
    cluster.put(pod("large", "b", cpu="4", spec={"priority": 2_000_000_001}))
    plan = cluster.round(plugin())
    assert not plan.moves
    assert plan.notes["test/Defragmentation/default/waits"]["stays"] == {"Protected": 3}


def test_the_schedulers_rules_refuse_a_set_that_only_has_the_amounts(cluster: TestCluster) -> None:
    """The search does not know of ports: the node that it proposes has the pod's port taken."""
    ports = [{"hostPort": 80, "containerPort": 80}]
    container = {"name": "c", "ports": ports, "resources": {"requests": {"cpu": "1"}}}
    port = {"containers": [container]}
    cluster.put(pod("small", "a", spec=port), pod("large", "b", spec=port))
    cluster.put(pod("other", "a", cpu="3"), pod("more", "b", cpu="3"))
    assert moves(cluster.round(plugin())) in ([("other", "b")], [("more", "a")])


def test_no_pod_moves_to_a_node_that_it_prefers_less(cluster: TestCluster) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster.put(node("a", labels={"disk": "fast"}))
    cluster.put(pod("other", "a", cpu="3", spec={"affinity": affinity}))
    assert moves(cluster.round(plugin())) == [("small", "b")]


def test_a_pod_that_has_not_waited_long_moves_nobody(cluster: TestCluster) -> None:
    assert not cluster.round(plugin(waiting={"minSeconds": 7200})).moves
    assert not cluster.round(plugin(waiting={"namespaces": ["others"]})).moves


def test_a_job_that_is_worth_little_moves_nobody(cluster: TestCluster) -> None:
    assert not cluster.round(plugin(minValue=5.0)).moves


def test_nodes_are_emptied(cluster: TestCluster) -> None:
    cluster.remove("Pod", "default/waits")
    plan = cluster.round(plugin(targets=["EmptyNodes"]))
    assert moves(plan) == [("large", "a")]
    assert plan.notes["test/Defragmentation/emptied"]["nodes"] == ["b"]


def test_an_unknown_target_is_an_error_at_load() -> None:
    with pytest.raises(msgspec.ValidationError, match="targets"):
        msgspec.convert({"targets": ["Everything"]}, DefragmentationArgs)
    empty = msgspec.convert({"targets": [], "costs": {"mid": 0}}, DefragmentationArgs)
    assert [line.split()[0] for line in empty.problems("args")] == [
        "args.targets",
        "args.costs.mid",
    ]


@pytest.fixture
def gang() -> TestCluster:
    """A gang of two waits for six CPUs each; one node of two has so many."""
    found = TestCluster(read_scheduler_config(GANG_PLUGINS))
    found.put(node("a"), node("b"), node("c"), pod("large", "c", cpu="4"), pod("p", "b", cpu="3"))
    waiting = {"annotations": gang_annotations("g", 2), "owner": "job"}
    found.put(*(pod(f"g{number}", cpu="6", **waiting) for number in range(2)))
    return found


def test_pods_move_for_a_gang_that_starts_as_a_whole(gang: TestCluster) -> None:
    plan = gang.round(plugin())
    assert moves(plan) == [("p", "c")]
    nodes = plan.notes["test/Defragmentation/default/g"]["nodes"]
    assert nodes == {"default/g0": "a", "default/g1": "b"}


def test_nobody_moves_for_a_gang_of_which_only_a_part_can_start(gang: TestCluster) -> None:
    gang.put(node("a", cpu="5"))
    plan = gang.round(plugin())
    assert not plan.moves
    assert plan.notes["test/Defragmentation/default/g"]["why"].endswith("no room for 1 of 2")


def test_pods_of_a_gang_that_runs_are_no_victims(gang: TestCluster) -> None:
    gang.put(pod("p", "b", cpu="3", annotations=gang_annotations("other", 1)))
    plan = gang.round(plugin())
    assert moves(plan) == [("large", "b")]


def test_nobody_moves_for_a_gang_that_has_room(gang: TestCluster) -> None:
    gang.remove("Pod", "default/p")
    plan = gang.round(plugin())
    assert (plan.moves, plan.notes) == ((), {})


GATHERING = (
    GANG_PLUGINS
    + """
    pluginConfig: [{name: Coscheduling, args: {awareNetworkTopology: true}}]
"""
)


def test_pods_move_for_a_gang_in_the_part_of_the_network_that_it_has_to_be_in() -> None:
    """Without moves there is room for both, in different racks; the smallest rack never has."""
    found = TestCluster(read_scheduler_config(GATHERING))
    layers = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
        {"topologyLayer": "rack", "labelKey": ["rack"]},
    ]
    spec = {"networkTopologySpec": layers}
    topology = {"kind": "ClusterNetworkTopology", "metadata": {"name": "default"}, "spec": spec}
    found.put(
        topology, *(node(name, labels={"rack": name[0]}) for name in ("a1", "a2", "b1", "b2"))
    )
    found.put(node("c1", labels={"rack": "c"}), pod("p", "b1", cpu="3"), pod("q", "a1", cpu="5"))
    found.put(pod("r", "a2", cpu="5"))
    rules = {"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}
    written = gang_annotations("g", 2, network_topology_spec=json.dumps(rules))
    found.put(*(pod(f"g{number}", cpu="6", annotations=written, owner="j") for number in range(2)))
    plan = found.round(plugin())
    assert moves(plan) == [("p", "a1")] or moves(plan) == [("p", "a2")]
    nodes = plan.notes["test/Defragmentation/default/g"]["nodes"]
    assert set(nodes.values()) == {"b1", "b2"}
    written = gang_annotations("h", 3, network_topology_spec=json.dumps(rules))
    found.put(*(pod(f"h{number}", cpu="6", annotations=written, owner="h") for number in range(3)))
    why = found.round(plugin()).notes["test/Defragmentation/default/h"]["why"]
    assert why.startswith('no domain of layer "rack" has room for 3 pods')


@pytest.mark.parametrize(
    ("change", "hours", "cost"),
    [
        ({}, 2, 1.0),
        ({"owner": None}, 2, 2.0),
        ({"owner": None}, 1000, 5.0),
        ({"owner": None, "annotations": {ANNOTATION_CHECKPOINT: rfc3339(NOW - 1800)}}, 2, 1.25),
        ({"labels": {"koordinator.sh/priority-class": "koord-free"}}, 2, 0.4),
    ],
)
def test_moving_costs_lost_work_and_less_for_low_priorities(
    change: dict[str, Any], hours: int, cost: float
) -> None:
    document = pod("p", "a", status={"startTime": rfc3339(NOW - 3600 * hours)}, **change)
    cluster = TestCluster()
    cluster.put(node("a"), document)
    view = cluster.cluster.pods["default/p"].view
    assert move_cost(view, MoveCosts(), NOW) == pytest.approx(cost)


GPU_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {enabled: [{name: DeviceShare}]}}
"""


def device(name: str) -> dict[str, Any]:
    """Two GPUs, whose numbers begin at 2."""
    cards = [
        {"type": "gpu", "id": f"{name}-{minor}", "minor": minor, "health": True,
         "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}}
        for minor in (2, 3)
    ]  # fmt: skip
    metadata = {"name": name}
    return {"kind": "Device", "metadata": metadata, "spec": {"devices": cards}}


def gpu_pod(name: str, per_cent: int, on: str = "", minor: int = 2, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": "1", GPU_CORE: str(per_cent), GPU_MEMORY_RATIO: str(per_cent)}
    spec = {"containers": [{"name": "c", "resources": {"requests": amounts}}]}
    given = {
        "gpu": [{"minor": minor, "resources": {GPU_CORE: per_cent, GPU_MEMORY_RATIO: per_cent}}]
    }
    annotations = {ANNOTATION_DEVICE_ALLOCATED: json.dumps(given)} if on else {}
    annotations |= more.pop("annotations", {})
    return pod(
        name, on, spec=spec | ({"nodeName": on} if on else {}), annotations=annotations, **more
    )


def test_parts_of_cards_move_together_so_that_a_pod_gets_whole_ones() -> None:
    cluster = TestCluster(read_scheduler_config(GPU_PLUGINS))
    amounts = {GPU_CORE: "200", GPU_MEMORY_RATIO: "200", GPU_MEMORY: "32Gi"}
    for name in ("a", "b"):
        cluster.put(node(name, allocatable=amounts), device(name))
    cluster.put(gpu_pod("p", 40, "a", 2), gpu_pod("q", 50, "b", 3))
    cluster.put(gpu_pod("waits", 200, owner=None))
    plan = cluster.round(plugin())
    assert moves(plan) == [("p", "b")]
    assert plan.moves[0].arithmetic["value"] == 3.0
    cluster.put(gpu_pod("q", 70, "b", 3), gpu_pod("r", 70, "b", 2))
    assert not cluster.round(plugin()).moves


NUMA_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Coscheduling}, {name: DeviceShare}, {name: NodeNUMAResource}]
"""
ALIGNED = {ANNOTATION_NUMA_TOPOLOGY_SPEC: json.dumps({"numaTopologyPolicy": "SingleNUMANode"})}


def numa_node(name: str, *, has_gpus: bool = False) -> list[dict[str, Any]]:
    """Two NUMA nodes of four CPUs, 8 GiB and two GPUs."""
    detail = [{"id": cpu, "core": cpu // 2, "node": cpu // 4, "socket": 0} for cpu in range(8)]
    has = [{"name": "cpu", "allocatable": "4"}, {"name": "memory", "allocatable": "8Gi"}]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": has} for zone in (0, 1)]
    annotations = {ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    metadata = {"name": name, "annotations": annotations}
    topology = {"kind": "NodeResourceTopology", "metadata": metadata, "zones": zones}
    if not has_gpus:
        return [node(name), topology]
    amounts = {GPU_CORE: "400", GPU_MEMORY_RATIO: "400", GPU_MEMORY: "64Gi"}
    cards = [
        {"type": "gpu", "id": f"{name}-{minor}", "minor": minor, "health": True,
         "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
         "topology": {"socketID": 0, "nodeID": minor // 2, "pcieID": f"p{minor}"}}
        for minor in range(4)
    ]  # fmt: skip
    devices = {"kind": "Device", "metadata": {"name": name}, "spec": {"devices": cards}}
    return [node(name, allocatable=amounts), topology, devices]


def test_pods_of_one_numa_node_move_for_a_gang_that_needs_whole_ones() -> None:
    """Each node has enough for a pod of the gang, but only a half of it in each NUMA node."""
    found = TestCluster(read_scheduler_config(NUMA_PLUGINS))
    for name in ("a", "b"):
        found.put(*numa_node(name))
        for zone in (0, 1):
            amounts = {"cpu": "2", "memory": "1Gi"}
            given = {"numaNodeResources": [{"node": zone, "resources": amounts}]}
            status = {ANNOTATION_RESOURCE_STATUS: json.dumps(given)}
            found.put(pod(f"{name}{zone}", name, cpu="2", annotations=status))
    found.put(node("c", cpu="4"))
    written = gang_annotations("g", 2) | ALIGNED
    found.put(*(pod(f"g{number}", cpu="4", annotations=written, owner="j") for number in range(2)))
    plan = found.round(plugin())
    left = sorted(move.source for move in plan.moves)
    nodes = plan.notes["test/Defragmentation/default/g"]["nodes"]
    assert sorted(nodes.values()) == left
    assert {move.target for move in plan.moves} == {"c"}
    assert len(left) == 2


def test_cards_of_one_numa_node_are_freed_for_a_pod_that_needs_them_together() -> None:
    found = TestCluster(read_scheduler_config(NUMA_PLUGINS))
    found.put(*numa_node("a", has_gpus=True), *numa_node("b", has_gpus=True))
    found.put(gpu_pod("p", 100, "a", 0), gpu_pod("q", 100, "a", 2))
    found.put(gpu_pod("r", 100, "b", 0), gpu_pod("s", 50, "b", 2), gpu_pod("t", 50, "b", 3))
    found.put(gpu_pod("waits", 200, annotations=ALIGNED, owner=None))
    plan = found.round(plugin())
    assert moves(plan) in ([("p", "b")], [("q", "b")], [("r", "a")])
