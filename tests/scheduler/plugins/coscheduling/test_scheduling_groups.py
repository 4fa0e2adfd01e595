"""Kubernetes' own groups of pods are placed whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.decisions import Placement, PreemptionPlan

from tests.support.gangs import GangCluster

PLUGINS = ("GangScheduling", "TopologyPlacementGenerator")


def cluster_with(
    *nodes: str, cpus: int = 4, plugins: Iterable[str] = PLUGINS, composites: bool = True
) -> GangCluster:
    """A cluster whose profile has plugins more than by default."""
    enabled = ", ".join(f"{{name: {one}}}" for one in plugins)
    config = read_scheduler_config(
        f"""
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]
        """
    )
    cluster = GangCluster(*nodes, cpus=cpus, profile=config.profiles[0].guarded())
    cluster.scheduler.gangs.hierarchy.has_composites = composites
    return cluster


def gang(minimum: int, **more: Any) -> dict[str, Any]:
    """The spec of a PodGroup."""
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}, **more}


def composite(minimum: int, **more: Any) -> dict[str, Any]:
    """The spec of a CompositePodGroup; 0: its groups start by themselves."""
    policy = {"gang": {"minGroupCount": minimum}} if minimum else {"basic": {}}
    return {"schedulingPolicy": policy, **more}


def within(label: str) -> dict[str, Any]:
    """A topology constraint."""
    return {"schedulingConstraints": {"topology": [{"key": label}]}}


def members(cluster: GangCluster, group: str, number: int, *, cpus: int = 1, **spec: Any) -> None:
    """Pods of a group, GROUP-0 and so on."""
    for one in range(number):
        named = {"podGroupName": group}
        cluster.pod(f"{group}-{one}", schedulingGroup=named, cpus=cpus, **spec)


def nodes_of(cluster: GangCluster, seconds: float = 0.0) -> dict[str, str]:
    """Where pods go, which then are bound."""
    found = [one for one in cluster.decisions(seconds) if isinstance(one, Placement)]
    for one in found:
        cluster.bind(one._replace(release=None) if hasattr(one, "_replace") else one)
    return {one.pod.key.partition("/")[2]: one.node for one in found}


def why(cluster: GangCluster, pod: str) -> str:
    """Why a pod waits."""
    return cluster.scheduler.gang_cycle.report(cluster.scheduler.queue.pods[f"d/{pod}"]).reason


def test_pod_groups_are_gangs_where_the_plugin_is_on() -> None:
    cluster = cluster_with("n1", plugins=["GangScheduling"], composites=False)
    members(cluster, "g", 2)
    for name in ("basic", "near", "part"):
        members(cluster, name, 1)
    assert cluster.placed() == []
    assert "neither a PodGroup" in cluster.refusals(6.0)[0].gang
    cluster.scheduling_group("g", gang(3))
    cluster.scheduling_group("basic", {"schedulingPolicy": {"basic": {}}})
    cluster.scheduling_group("near", gang(1, **within("zone")))
    cluster.scheduling_group("part", gang(1, parentCompositePodGroupName="all"))
    assert cluster.placed(1.0) == ["basic-0"]
    members(cluster, "g", 3)
    assert sorted(cluster.placed(1.0)) == ["g-0", "g-1", "g-2"]
    assert "needs the plugin TopologyPlacementGenerator" in why(cluster, "near-0")
    assert "needs the feature gate CompositePodGroup" in why(cluster, "part-0")


def test_pods_have_the_priority_of_their_group() -> None:
    cluster = cluster_with("n1")
    cluster.scheduling_group("g", gang(1, priority=5))
    members(cluster, "g", 2, priority=5)
    members(cluster, "g", 1, priority=7)
    assert cluster.placed() == []
    rule = "all pods in a single pod group should match the priority of the pod group"
    assert why(cluster, "g-1").endswith(f"{rule}, got: 7 and 5")
    members(cluster, "g", 1, priority=5)
    assert sorted(cluster.placed(1.0)) == ["g-0", "g-1"]


def racks(cluster: GangCluster, **sizes: tuple[int, str]) -> None:
    """A node of so many cores in each rack, which is in a block."""
    for name, (cpus, block) in sizes.items():
        cluster.node(name, cpus, rack=name, block=block)


def test_all_pods_are_in_one_domain_of_the_topology_constraint() -> None:
    cluster = cluster_with()
    racks(cluster, large=(9, "b"), fitting=(3, "b"), small=(2, "b"))
    cluster.node("outside", 9)
    cluster.scheduling_group("g", gang(3, **within("rack")))
    members(cluster, "g", 3)
    assert set(nodes_of(cluster).values()) == {"fitting"}, "it is the fullest that is enough"
    cluster.pod("g-3", schedulingGroup={"podGroupName": "g"})
    assert nodes_of(cluster, 1.0) == {}, "later ones belong there, too"
    cluster.remove("d/g-0")
    assert nodes_of(cluster, 11.0) == {"g-3": "fitting"}

    cluster.scheduling_group("h", gang(10, **within("rack")))
    members(cluster, "h", 10)
    refusal = next(one for one in cluster.refusals(1.0) if one.pod.key.startswith("d/h"))
    assert "no nodes with one value of rack have room for 10 pods at once" in refusal.gang


def test_pods_of_a_basic_group_are_near_each_other_one_by_one() -> None:
    cluster = cluster_with()
    racks(cluster, one=(2, "b"), two=(1, "b"))
    cluster.scheduling_group("g", {"schedulingPolicy": {"basic": {}}, **within("rack")})
    members(cluster, "g", 3)
    assert set(nodes_of(cluster).values()) == {"one"}
    assert len(cluster.of("g.scheduling.k8s.io").waiting()) == 1


def test_groups_of_a_composite_start_together() -> None:
    cluster = cluster_with("n1", cpus=4)
    cluster.composite("all", composite(2))
    for name in ("leader", "workers"):
        cluster.scheduling_group(name, gang(1, parentCompositePodGroupName="all"))
    cluster.scheduling_group("workers", gang(4, parentCompositePodGroupName="all"))
    members(cluster, "leader", 1)
    assert cluster.placed() == []
    members(cluster, "workers", 4)
    assert cluster.of("workers.scheduling.k8s.io").refusal == "", "it was not tried"
    assert cluster.placed(1.0) == [], "five pods, four cores"
    assert cluster.placed(61.0) == []
    assert "needs nodes for 5 pods at once, 4 fit" in cluster.of("leader.scheduling.k8s.io").refusal
    cluster.node("n2", 1)
    assert len(cluster.placed(11.0)) == 5


def test_a_composite_needs_as_many_groups_as_it_says() -> None:
    cluster = cluster_with("n1", cpus=4)
    cluster.composite("all", composite(2))
    cluster.scheduling_group("a", gang(2, parentCompositePodGroupName="all"))
    members(cluster, "a", 2)
    assert cluster.placed() == [], "the second group is not there"
    for name in ("b", "c"):
        cluster.scheduling_group(name, gang(2, parentCompositePodGroupName="all"))
        members(cluster, name, 2)
    assert sorted({one[0] for one in nodes_of(cluster, 11.0)}) == ["a", "b"]
    assert cluster.requested() == 4, "no part of the third one"
    cluster.node("n2", 1)
    assert cluster.placed(11.0) == [], "it starts whole, too"
    cluster.node("n2", 2)
    assert len(cluster.placed(11.0)) == 2


def test_a_group_that_cannot_start_leaves_its_room_to_others() -> None:
    cluster = cluster_with("n1", cpus=4)
    cluster.composite("all", composite(2))
    for name in ("a", "b", "c"):
        cluster.scheduling_group(name, gang(2, parentCompositePodGroupName="all"))
        members(cluster, name, 1)
    cluster.pod("a-1", schedulingGroup={"podGroupName": "a"}, nodeSelector={"no": "where"})
    for name in ("b", "c"):
        cluster.pod(f"{name}-1", schedulingGroup={"podGroupName": name})
    assert sorted(cluster.placed()) == ["b-0", "b-1", "c-0", "c-1"]


def test_groups_below_a_basic_composite_start_by_themselves() -> None:
    cluster = cluster_with("n1", cpus=4)
    cluster.composite("all", composite(0))
    for name, pods in (("a", 2), ("b", 9)):
        cluster.scheduling_group(name, gang(pods, parentCompositePodGroupName="all"))
        members(cluster, name, pods)
    assert sorted(cluster.placed()) == ["a-0", "a-1"]


def test_domains_are_nested_as_groups_are() -> None:
    cluster = cluster_with()
    racks(cluster, r1=(2, "left"), r2=(1, "left"), r3=(2, "right"), r4=(2, "right"))
    cluster.composite("all", composite(2, **within("block")))
    for name in ("a", "b"):
        cluster.scheduling_group(name, gang(2, parentCompositePodGroupName="all", **within("rack")))
        members(cluster, name, 2)
    found = nodes_of(cluster)
    assert {found["a-0"], found["b-0"]} == {"r3", "r4"}
    assert (found["a-0"], found["b-0"]) == (found["a-1"], found["b-1"])


def test_the_domains_of_which_a_group_has_to_be_in_one_are_known() -> None:
    """Those of the widest constraint, if it is for all groups."""

    def domains(cluster: GangCluster, name: str) -> list[set[str]] | None:
        head = cluster.scheduler.queue.pods[f"d/{name}-0"]
        found = cluster.scheduler.gang_cycle.domains(head)
        nodes = cluster.scheduler.nodes
        return None if found is None else [set(map(nodes.name, rows.tolist())) for rows in found]

    cluster = cluster_with()
    racks(cluster, r1=(1, "left"), r2=(1, "left"), r3=(1, "right"))
    cluster.node("outside", 9)
    cluster.scheduling_group("alone", gang(2))
    cluster.scheduling_group("near", gang(2, **within("block")))
    for name in ("alone", "near"):
        members(cluster, name, 2, cpus=8)
    assert domains(cluster, "alone") is None
    assert domains(cluster, "near") == [{"r1", "r2"}, {"r3"}]
    cluster.composite("all", composite(2))
    for name, more in (("a", within("rack")), ("b", {})):
        cluster.scheduling_group(name, gang(2, parentCompositePodGroupName="all", **more))
        members(cluster, name, 2, cpus=8)
    assert domains(cluster, "a") is None


@pytest.mark.parametrize(
    ("above", "reported"),
    [
        ({}, "there is no CompositePodGroup d/all"),
        ({"all": composite(1, parentCompositePodGroupName="all")}, "is above itself"),
        ({"all": composite(-1)}, "minGroupCount is -1; expected at least 1"),
        (
            {
                "all": composite(1, parentCompositePodGroupName="c1"),
                "c1": composite(1, parentCompositePodGroupName="c2"),
                "c2": composite(1, parentCompositePodGroupName="c3"),
                "c3": composite(1),
            },
            "5 groups deep; at most 4 are allowed",
        ),
        (
            {"all": composite(1, workloadRef={"workloadName": "w2"})},
            "belong to the Workloads w1 and w2; expected one",
        ),
        ({"all": composite(1, priority=3)}, "have the priorities 2 and 3; expected one"),
    ],
)
def test_a_group_below_a_wrong_tree_waits(above: Mapping[str, Any], reported: str) -> None:
    cluster = cluster_with("n1")
    workload = {"workloadName": "w1", "templateName": "t"}
    spec = gang(1, parentCompositePodGroupName="all", workloadRef=workload, priority=2)
    cluster.scheduling_group("g", spec)
    for name, one in above.items():
        cluster.composite(name, one)
    members(cluster, "g", 1, priority=2)
    assert cluster.placed() == []
    assert reported in why(cluster, "g-0")
    for name in above:
        cluster.remove_object("CompositePodGroup.scheduling.k8s.io", name)
    cluster.composite("all", composite(1))
    assert cluster.placed(11.0) == ["g-0"]


def whole(**more: Any) -> dict[str, Any]:
    """The spec of a group that is disrupted as a whole."""
    return gang(1, disruptionMode={"all": {}}, **more)


def victims_of(cluster: GangCluster) -> list[str]:
    """Who makes room."""
    plans = [one for one in cluster.decisions(1.0) if isinstance(one, PreemptionPlan)]
    return sorted(victim.key for one in plans for victim in one.preemption.victims)


def test_a_group_that_is_disrupted_whole_loses_all_its_pods_or_none() -> None:
    cluster = cluster_with("n1", "n2", cpus=1)
    cluster.scheduling_group("g", whole(priority=1))
    for number in (1, 2):
        named = {"podGroupName": "g"}
        cluster.pod(f"g-{number}", schedulingGroup=named, nodeName=f"n{number}", priority=1)
    cluster.pod("urgent", priority=9)
    assert victims_of(cluster) == ["d/g-1", "d/g-2"]

    cluster = cluster_with("n1", "n2", "n3", cpus=1)
    cluster.scheduling_group("g", whole())
    for number, priority in ((1, 1), (2, 9)):
        named = {"podGroupName": "g"}
        cluster.pod(f"g-{number}", schedulingGroup=named, nodeName=f"n{number}", priority=priority)
    cluster.pod("single", nodeName="n3", priority=5)
    cluster.pod("urgent", priority=8)
    assert victims_of(cluster) == ["d/single"], "a more important pod keeps its group"


def test_a_composite_may_be_disrupted_whole() -> None:
    cluster = cluster_with("n1", "n2", cpus=1)
    cluster.composite("all", composite(2, disruptionMode={"all": {}}))
    for number in (1, 2):
        cluster.scheduling_group(f"g{number}", gang(1, parentCompositePodGroupName="all"))
        named = {"podGroupName": f"g{number}"}
        cluster.pod(f"p{number}", schedulingGroup=named, nodeName=f"n{number}")
    cluster.pod("urgent", priority=9)
    assert victims_of(cluster) == ["d/p1", "d/p2"]


@pytest.mark.parametrize(("policy", "count"), [("PreemptLowerPriority", 2), ("Never", 0)])
def test_a_group_preempts_if_all_of_it_fits_then(policy: str, count: int) -> None:
    cluster = cluster_with("n1", "n2", cpus=1)
    for number in (1, 2):
        cluster.pod(f"old-{number}", nodeName=f"n{number}")
    cluster.scheduling_group("g", gang(2, priority=1, preemptionPolicy=policy))
    members(cluster, "g", 2, priority=1)
    assert len(victims_of(cluster)) == count


@pytest.mark.parametrize(("parent", "victims"), [(None, ["d/c-0", "d/c-1"]), ("all", [])])
def test_a_group_preempts_in_its_domain_but_not_below_others(
    parent: str | None, victims: list[str]
) -> None:
    cluster = cluster_with()
    racks(cluster, a=(1, "left"), b=(1, "left"), c=(2, "left"))
    for name, number in (("a", 1), ("b", 1), ("c", 2)):
        for one in range(number):
            cluster.pod(f"{name}-{one}", nodeName=name)
    cluster.composite("all", composite(1, priority=1, **within("block")))
    spec = gang(2, priority=1, parentCompositePodGroupName=parent, **within("rack"))
    cluster.scheduling_group("g", spec)
    members(cluster, "g", 2, priority=1)
    assert victims_of(cluster) == victims
