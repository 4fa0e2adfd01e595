"""The tree of the network, and which nodes gangs get in it, against Koordinator."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.network.topology_status import detail_status

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay
from tests.support.gangs import GangCluster, gang_annotations

SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
DECISIONS = ("existing pods are counted without those of the trial",)


def cluster_of(given: Object) -> GangCluster:
    cluster = GangCluster(gathers=True)
    topology = {"metadata": {"name": "default"}, "spec": given["spec"]}
    cluster.put("ClusterNetworkTopology", "default", topology)
    for node in given["nodes"]:
        cluster.node(node["name"], node["cpu"], **node["labels"])
        for number in range(node["existing"]):
            annotations = {**gang_annotations("other", 1), SELECTOR: "s"}
            name = f"other-{node['name']}-{number}"
            cluster.pod(name, annotations, cpus=0, nodeName=node["name"])
    return cluster


def ours(vector: Vector) -> Fields:
    """The status and where pods go, as JSON lists: what has to be equal as a whole."""
    given = vector.given
    cluster = cluster_of(given)
    tree = cluster.scheduler.nodes.use(ClusterNetwork).tree()
    if tree is None:
        return {"error": True}
    spec = {"network_topology_spec": given["annotation"]}
    annotations = gang_annotations("g", len(given["pods"]), **spec)
    if given["selector"]:
        annotations[SELECTOR] = "s"
    for name in given["pods"]:
        cluster.pod(name, annotations, cpus=given["cpu"])
    placed = {
        one.pod.key[2:]: one.node for one in cluster.decisions() if isinstance(one, Placement)
    }
    return {"nodes": placed or None, **leaves({"status": detail_status(tree)})}


def recorded(out: Object) -> Fields:
    if "error" in out:
        return {"error": True}
    return {"nodes": out.get("nodes"), **leaves({"status": out["status"]})}


def multiples(given: Object) -> dict[str, int]:
    rules = json.loads(given["annotation"])["gatherStrategy"]
    found = {rule["layer"]: rule.get("podCountMultiple", 0) for rule in rules}
    return {layer: number for layer, number in found.items() if number > 1}


def domains(given: Object, nodes: Mapping[str, str]) -> list[int]:
    """How many domains the pods are in, by layer, from the top down."""
    specs = {one["topologyLayer"]: one for one in given["spec"]["networkTopologySpec"]}
    labels = {one["name"]: one["labels"] for one in given["nodes"]}
    layer, found = specs["NodeTopologyLayer"].get("parentTopologyLayer"), [len(set(nodes.values()))]
    while layer in specs:
        keys = specs[layer]["labelKey"]
        of = {next((labels[n][k] for k in keys if k in labels[n]), n) for n in nodes.values()}
        found.append(len(of))
        layer = specs[layer].get("parentTopologyLayer")
    return found[::-1]


def fewer_domains(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator takes the parts with the most slots first, which is not always the fewest."""
    mine, recorded = here.get("nodes"), there.get("nodes")
    if field != "nodes" or not mine or not recorded:
        return False
    return domains(vector.given, mine) < domains(vector.given, recorded)


def multiples_hold_above_the_domain(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator does not look at the multiples of layers above the domain that it takes."""
    total, found = len(vector.given["pods"]), multiples(vector.given)
    in_vain = any(total % one for one in found.values())
    return field == "nodes" and here["nodes"] is None and in_vain


def multiples_of_each_other_or_not(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator fills a domain with numbers that its parts cannot add up to, and gives up."""
    found = multiples(vector.given)
    nested = math.lcm(*found.values()) in found.values()
    return field == "nodes" and there["nodes"] is None and bool(here["nodes"]) and not nested


def the_lowest_layer_gathers(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """For Koordinator the highest layer, the cluster and unknown layers are equally high."""
    rules = json.loads(vector.given["annotation"])["gatherStrategy"]
    must = {rule["layer"] for rule in rules if rule["strategy"] == "MustGather"}
    layers = {one["topologyLayer"]: one for one in vector.given["spec"]["networkTopologySpec"]}
    as_high = {one for one in must if layers.get(one, {}).get("parentTopologyLayer") not in layers}
    return field == "nodes" and len(as_high) > 1


def test_gangs_get_the_nodes_that_koordinator_gives_them() -> None:
    replay(
        "network_topology",
        ours,
        recorded,
        (
            fewer_domains,
            multiples_hold_above_the_domain,
            multiples_of_each_other_or_not,
            the_lowest_layer_gathers,
        ),
        DECISIONS,
    )
