"""Gangs start in the part of the network that they ask for."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.gang_hold import HOLD_AFTER_SECONDS
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.inter_pod_affinity import InterPodAffinity

from tests.support.gangs import PREFIX, GangCluster, gang_annotations

LAYERS = [
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    {"topologyLayer": "rack", "parentTopologyLayer": "block", "labelKey": ["rack"]},
    {"topologyLayer": "block", "labelKey": ["block"]},
]
TOPOLOGY = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": LAYERS}}
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"


def gather(layer: str, strategy: str = "MustGather", multiple: int = 0) -> str:
    rule = {"layer": layer, "strategy": strategy, "podCountMultiple": multiple}
    return json.dumps({"gatherStrategy": [rule]})


def cluster_of(*racks: int, cpus: int = 2, gangs_preempt: bool = False) -> GangCluster:
    """Racks of so many nodes, two racks in each block."""
    cluster = GangCluster(gathers=True, gangs_preempt=gangs_preempt)
    cluster.put("ClusterNetworkTopology", "default", TOPOLOGY)
    for rack, nodes in enumerate(racks):
        for number in range(nodes):
            cluster.node(f"r{rack}-n{number}", cpus, rack=f"r{rack}", block=f"b{rack // 2}")
    return cluster


def nodes_of(cluster: GangCluster, seconds: float = 0.0) -> dict[str, str]:
    found = [one for one in cluster.decisions(seconds) if isinstance(one, Placement)]
    for one in found:
        cluster.bind(one)
    return {one.pod.key[2:]: one.node for one in found}


def racks_of(placed: dict[str, str]) -> set[str]:
    return {node.partition("-")[0] for node in placed.values()}


def test_a_gang_gets_one_rack_with_room_for_all() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.gang("g", 4, network_topology_spec=gather("rack"))
    placed = nodes_of(cluster)
    assert len(placed) == 4
    assert racks_of(placed) == {"r1"}


def test_a_gang_that_fits_in_no_rack_waits_and_hears_why() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.gang("g", 7, network_topology_spec=gather("rack"))
    (refusal,) = cluster.refusals()
    why = 'no domain of layer "rack" has room for 7 pods: b1/r2 has room for 6'
    assert why in refusal.gang
    assert cluster.scheduler.gang_cycle.report(refusal.pod).reason == why
    cluster.node("r2-n9", rack="r2", block="b1")
    assert racks_of(nodes_of(cluster, 2.0)) == {"r2"}


def test_a_gang_that_only_prefers_it_spans_racks_of_one_block() -> None:
    cluster = cluster_of(2, 1, 1, 1)
    cluster.gang("g", 6, network_topology_spec=gather("rack", "PreferGather"))
    assert racks_of(nodes_of(cluster)) == {"r0", "r1"}


def test_members_that_come_later_join_the_rack_of_the_others_or_wait() -> None:
    cluster = cluster_of(2, 2)
    cluster.gang("g", 2, network_topology_spec=gather("rack"))
    assert racks_of(nodes_of(cluster)) == {"r0"}
    more = gang_annotations("g", 2, network_topology_spec=gather("rack"))
    for number in (2, 3):
        cluster.pod(f"g-{number}", more)
    assert racks_of(nodes_of(cluster)) == {"r0"}
    cluster.pod("g-4", more)
    (refusal,) = cluster.refusals()
    assert "beside 4 that are bound: b0/r0 has room for 0" in refusal.gang


def test_pods_of_several_classes_share_a_rack() -> None:
    cluster = cluster_of(2, 2, cpus=4)
    annotations = gang_annotations("g", 4, network_topology_spec=gather("rack"))
    for name, cpus in (("a", 3), ("b", 3), ("c", 1), ("d", 1)):
        cluster.pod(name, annotations, cpus=cpus)
    placed = nodes_of(cluster)
    assert racks_of(placed) == {"r0"}
    assert {placed["a"], placed["b"]} == {placed["c"], placed["d"]}


def test_a_domain_gets_a_multiple_of_pods() -> None:
    cluster = cluster_of(1, 1, 1, 1, cpus=3)
    cluster.gang("g", 4, network_topology_spec=gather("rack", "PreferGather", 2))
    placed = nodes_of(cluster)
    assert sorted(list(placed.values()).count(one) for one in set(placed.values())) == [2, 2]


def test_pods_come_near_those_with_the_same_selector() -> None:
    cluster = cluster_of(2, 3)
    for name in ("g", "h"):
        annotations = {
            **gang_annotations(name, 2, network_topology_spec=gather("rack")),
            SELECTOR: "team",
        }
        extra = {"nodeName": "r1-n0"} if name == "g" else {}
        for number in range(2):
            cluster.pod(f"{name}-{number}", annotations, **extra)
    assert racks_of(nodes_of(cluster)) == {"r1"}


def test_neighbours_by_index_share_nodes() -> None:
    cluster = cluster_of(2)
    annotations = gang_annotations("g", 4, network_topology_spec=gather("rack"))
    for name, index in {"a": 3, "b": 1, "c": 2, "d": 0}.items():
        cluster.pod(name, {**annotations, f"{PREFIX}/network-topology-index": str(index)})
    placed = nodes_of(cluster)
    assert placed["d"] == placed["b"] != placed["c"] == placed["a"]


@pytest.mark.parametrize(
    ("text", "topology", "expected"),
    [
        ("[", TOPOLOGY, "network-topology-spec"),
        (gather("rack"), None, 'ClusterNetworkTopology "default"'),
        (gather("pod"), TOPOLOGY, '"pod"'),
    ],
)
def test_what_cannot_be_meant_keeps_a_gang_waiting(
    text: str, topology: object, expected: str
) -> None:
    cluster = cluster_of(1)
    if topology is None:
        cluster.scheduler.nodes.use(ClusterNetwork).remove("default")
    cluster.gang("g", 2, network_topology_spec=text)
    (refusal,) = cluster.refusals()
    assert expected in refusal.gang


def test_a_topology_that_is_not_valid_costs_a_warning() -> None:
    cluster = cluster_of(1)
    cluster.put("ClusterNetworkTopology", "other", TOPOLOGY)
    broken = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": LAYERS[1:]}}
    cluster.put("ClusterNetworkTopology", "default", broken)
    network = cluster.scheduler.nodes.use(ClusterNetwork)
    assert network.layers is None
    first, second = network.take_warnings()
    assert '"other"' in first
    assert "NodeTopologyLayer" in second


def test_as_many_as_have_to_start_together_do_where_not_all_fit() -> None:
    cluster = cluster_of(1, 1)
    cluster.gang("g", 3, minimum=2, network_topology_spec=gather("rack"))
    assert racks_of(nodes_of(cluster)) == {"r0"}
    assert len(cluster.of("g").bound) == 2


def test_room_is_held_in_a_domain_that_is_large_enough() -> None:
    cluster = cluster_of(1, 3, 3)
    for rack, number in ((1, 3), (2, 5)):
        for one in range(number):
            cluster.pod(f"old-{rack}-{one}", nodeName=f"r{rack}-n{one % 3}")
    cluster.gang("g", 4, network_topology_spec=gather("rack"))
    assert nodes_of(cluster) == {}
    assert nodes_of(cluster, HOLD_AFTER_SECONDS + 1) == {}
    cluster.gang("small", 5, minimum=1)
    others = nodes_of(cluster, 1.0)
    assert "r1" not in racks_of(others)
    assert len(others) == 3
    cluster.remove("d/old-1-0")
    assert racks_of(nodes_of(cluster, 11.0)) == {"r1"}


def test_members_that_wait_for_long_beside_others_hold_nothing() -> None:
    cluster = cluster_of(1, 2)
    cluster.gang("g", 2, network_topology_spec=gather("rack"))
    assert racks_of(nodes_of(cluster)) == {"r0"}
    cluster.pod("g-2", gang_annotations("g", 2, network_topology_spec=gather("rack")))
    for _ in range(10):
        assert [one.defect for one in cluster.refusals(20.0)] in ([], [""])
    assert len(cluster.scheduler.nominations) == 0


ON_A_PORT = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}


def apart_from(app: str) -> dict[str, Any]:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": app}}}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": anti}}


@pytest.mark.parametrize(
    ("spec", "apps", "rack"),
    [
        (apart_from("app"), ("app", "app"), "r5"),
        (apart_from("app"), ("app", "other"), "r5"),  # which shows when it is tried
        (apart_from("else"), ("app", "app"), "r0"),
        ({"containers": [ON_A_PORT]}, ("app", "app"), "r5"),
    ],
)
def test_pods_that_keep_apart_share_a_rack(
    spec: dict[str, Any], apps: tuple[str, str], rack: str
) -> None:
    """A plan knows that equal pods exclude each other: it tries no five racks in vain."""
    cluster = GangCluster(gathers=True, more=[EnabledPlugin(InterPodAffinity(), weight=0)])
    cluster.put("ClusterNetworkTopology", "default", TOPOLOGY)
    several = apps[0] != apps[1]
    for number, nodes in enumerate([1, 1, 1, 1, 1, 2]):
        if not several or number > 3:
            for node in range(nodes):
                name = f"r{number}-n{node}"
                cluster.node(name, 4, rack=f"r{number}", block="b", host=name)
    annotations = gang_annotations("g", 2, network_topology_spec=gather("rack"))
    for number, app in enumerate(apps):
        cluster.pod(f"g-{number}", annotations, labels={"app": app}, **spec)
    assert racks_of(nodes_of(cluster)) == {rack}


def test_nodes_outside_the_network_have_no_part_in_it() -> None:
    cluster = GangCluster("outside", gathers=True)
    annotations = {
        **gang_annotations("g", 2, network_topology_spec=gather("rack")),
        SELECTOR: "team",
    }
    cluster.pod("near", annotations | gang_annotations("h", 1), nodeName="outside")
    cluster.put("ClusterNetworkTopology", "default", TOPOLOGY)
    for rack, cpus in (("r0", 2), ("r1", 3)):
        cluster.node(f"{rack}-n0", cpus, rack=rack, block="b")
    for number in range(2):
        cluster.pod(f"g-{number}", annotations)
    assert racks_of(nodes_of(cluster)) == {"r0"}


def test_a_class_takes_nothing_of_what_it_does_not_ask_for() -> None:
    cluster = cluster_of(1, 2)
    annotations = gang_annotations("g", 2, network_topology_spec=gather("rack"))
    for name, requests in (("a", {"cpu": "1"}), ("b", {"cpu": "1", "memory": "64Gi"})):
        container = {"name": "c", "resources": {"requests": requests}}
        cluster.pod(name, annotations, containers=[container])
    assert racks_of(nodes_of(cluster)) == {"r0"}


@pytest.mark.parametrize("seed", range(8))
def test_members_of_a_gang_are_never_in_two_racks(seed: int) -> None:
    """Pods and gangs of several classes come, grow and go; with plans, and with what follows."""
    rng, cluster = Random(seed), cluster_of(2, 3, 1, 4, cpus=4)
    racks: dict[str, set[str]] = {}
    placed = 0
    for turn in range(40):
        match rng.choice(["gang", "gang", "more", "gone", "single"]):
            case "gang":
                racks[f"g{turn}"] = set()
                for number in range(rng.randint(2, 6)):
                    join(cluster, rng, f"g{turn}", number)
            case "more" if racks:
                join(cluster, rng, rng.choice(sorted(racks)), 100 + turn)
            case "gone" if cluster.scheduler.placed.by_key:
                cluster.remove(rng.choice(sorted(cluster.scheduler.placed.by_key)))
            case "single":
                cluster.pod(f"single-{turn}", cpus=rng.randint(1, 3))
        found = nodes_of(cluster, 11.0)
        placed += len(found)
        for name, known in racks.items():
            there = cluster.scheduler.gangs.by_key.get(f"d/{name}")
            bound = there.bound if there is not None else {}
            known.clear()
            for key in bound:
                known.add(cluster.scheduler.placed.by_key[key].node.partition("-")[0])
            assert len(known) < 2, name
    assert placed > 10


def join(cluster: GangCluster, rng: Random, gang: str, number: int) -> None:
    annotations = gang_annotations(gang, 2, network_topology_spec=gather("rack"))
    cluster.pod(f"{gang}-{number}", annotations, cpus=rng.choice([1, 1, 2]))


def test_victims_are_in_one_rack_that_is_large_enough() -> None:
    cluster = cluster_of(1, 2, 2, gangs_preempt=True)
    for rack, number in ((1, 4), (2, 3)):
        for one in range(number):
            cluster.pod(f"old-{rack}-{one}", nodeName=f"r{rack}-n{one % 2}", priority=1)
    annotations = gang_annotations("g", 3, network_topology_spec=gather("rack"))
    for number in range(3):
        cluster.pod(f"g-{number}", annotations, priority=9)
    plans = [one for one in cluster.decisions() if isinstance(one, PreemptionPlan)]
    victims = {victim.key for plan in plans for victim in plan.preemption.victims}
    assert len(victims) == 2
    assert all(key.startswith("d/old-2") for key in victims)
    for key in victims:
        cluster.remove(key)
    assert racks_of(nodes_of(cluster, 2.0)) == {"r2"}


@pytest.mark.parametrize("text", ["[", gather("pod"), gather("rack", multiple=5)])
def test_nobody_makes_room_for_what_cannot_be_met(text: str) -> None:
    cluster = cluster_of(1, gangs_preempt=True)
    cluster.pod("old", nodeName="r0-n0", priority=1)
    annotations = gang_annotations("g", 2, network_topology_spec=text)
    for number in range(2):
        cluster.pod(f"g-{number}", annotations, priority=9)
    for _ in range(3):
        (decision,) = cluster.decisions(HOLD_AFTER_SECONDS)
        assert isinstance(decision, Refusal)
        assert not decision.defect
    assert len(cluster.scheduler.nominations) == 0


def test_a_member_that_comes_later_preempts_nobody() -> None:
    cluster = cluster_of(1, gangs_preempt=True)
    annotations = gang_annotations("g", 1, network_topology_spec=gather("rack"))
    cluster.pod("old", nodeName="r0-n0", priority=1)
    cluster.pod("g-0", annotations, priority=9)
    assert len(nodes_of(cluster)) == 1
    cluster.pod("g-1", annotations, priority=9)
    (refusal,) = cluster.refusals()
    assert (refusal.defect, "beside 1 that are bound" in refusal.gang) == ("", True)
