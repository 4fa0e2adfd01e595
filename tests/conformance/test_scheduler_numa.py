"""CPUs and NUMA nodes of pods, against the functions of Koordinator's NodeNUMAResource."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from koord_model import cpuset
from koord_model.demand import amounts
from koord_model.keys import CPU
from koord_scheduler.extension_points.topology_hints import NUMAHint, bits, mask_of
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.objects.requests import pending_requests, placed_requests
from koord_scheduler.plugins.node_numa_resource.columns import NUMAColumns
from koord_scheduler.plugins.node_numa_resource.cpu_accumulator import CPUPool, take_preferred_cpus
from koord_scheduler.plugins.node_numa_resource.cpu_topology import CPUTopology, LogicalCPU
from koord_scheduler.plugins.node_numa_resource.free_cpus import CPUPreferences, TakenCPU
from koord_scheduler.plugins.node_numa_resource.machine import NUMAMachine, numa_machine
from koord_scheduler.plugins.node_numa_resource.node_allocation import NodeAllocation, added
from koord_scheduler.plugins.node_numa_resource.node_topology import (
    NodeTopology,
    node_topology,
)
from koord_scheduler.plugins.node_numa_resource.placement import (
    NodePlacement,
    NodeUse,
    NUMARejection,
)
from koord_scheduler.plugins.node_numa_resource.plugin import NodeNUMAResource
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings, pod_needs
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    completed_spec,
    numa_requirements,
    placed_allocation,
    resource_status,
)
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    CPUExclusivePolicy,
    NUMAAllocateStrategy,
    NUMAExclusive,
    NUMANodeStatus,
    NUMATopologyPolicy,
)
from koord_scheduler.plugins.node_numa_resource.scores import AmountScorer
from koord_scheduler.plugins.node_numa_resource.topology_manager import NUMANodes, merge_for_policy
from koord_scheduler.plugins.node_numa_resource.topology_object import read_node_resource_topology
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.pod_reader import PodReader
from koord_scheduler.state.resource_scores import least_taken, most_taken

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
STRATEGIES = {"LeastAllocated": least_taken, "MostAllocated": most_taken}


def cpus(vector: Vector) -> Fields:
    given = vector.given
    topology = CPUTopology(
        LogicalCPU(cpu, core, node, socket) for socket, node, core, cpu in given["Topology"]
    )
    taken = {
        int(cpu): TakenCPU(one["Refs"], CPUExclusivePolicy(one["Exclusive"]))
        for cpu, one in given["Allocated"].items()
    }
    free, preferred = frozenset(given["Available"]), frozenset(given["Preferred"])
    wants = CPUPreferences(
        given["Bind"] == CPUBindPolicy.FULL_PCPUS,
        CPUExclusivePolicy(given["Exclusive"]),
        NUMAAllocateStrategy(given["Strategy"]),
    )
    pool = CPUPool(topology, free, taken, preferred, given["MaxRef"])
    found = take_preferred_cpus(pool, given["Needed"], wants)
    if found is None:
        return {"error": "not enough cpus available to satisfy request"}
    return {"cpus": cpuset.render(found)}


def hints(vector: Vector) -> Fields:
    given = vector.given
    statuses = dict(enumerate(map(NUMANodeStatus, given["Status"])))
    providers = [
        {one["Resource"]: _hints(one["Hints"]) for one in provider}
        for provider in given["Providers"]
    ]
    found = merge_for_policy(
        NUMATopologyPolicy(given["Policy"]),
        NUMANodes(given["Nodes"], statuses),
        providers,
        NUMAExclusive(given["Exclusive"]),
    )
    hint = found.hint
    merged = {
        "admit": not found.reasons,
        "reasons": list(found.reasons) or None,
        "preferred": hint.preferred,
        "unsatisfied": hint.unsatisfied,
        "score": hint.score,
    }
    return leaves(merged if hint.mask is None else {**merged, "nodes": list(bits(hint.mask))})


def _hints(given: list[Object] | None) -> list[NUMAHint] | None:
    if given is None:
        return None
    return [
        NUMAHint(
            None if one["Nodes"] is None else mask_of(one["Nodes"]),
            one["Preferred"],
            one["Unsatisfied"],
            one["Score"],
        )
        for one in given
    ]


def placement(vector: Vector) -> Fields:
    given, metadata = vector.given, vector.given["Pod"]["metadata"]
    reported = _reported(given)
    machine = _machine(given, reported)
    found: Object = {}
    if given["NRT"] is not None:
        found["topology"] = _topology(reported, machine)
    pod = read_pod(json.dumps(given["Pod"]).encode())
    requests = pending_requests(pod).amounts
    says = numa_requirements(metadata["annotations"], metadata["labels"], None)
    needs = pod_needs(requests, says, _settings(given))
    if isinstance(needs, str):
        return _normal({**found, "prefilter": _status(NUMARejection((needs,)))})
    if not any(requests.values()):
        return _normal({**found, "prefilter": {"code": "Skip", "reasons": []}})
    had, use = _had(given), _use(given)
    one = NodePlacement(needs, machine, had, _settings(given))
    rejection = one.rejection(use)
    found["filter"] = _status(rejection)
    if rejection is None:
        found["score"] = one.score(use)
        got = one.reserve()
        found["reserve"] = _status(got if isinstance(got, NUMARejection) else None)
        if not isinstance(got, NUMARejection):
            if one.binds or one.policy:
                found[RESOURCE_STATUS] = resource_status(got)
            if one.binds:
                found[RESOURCE_SPEC] = completed_spec(
                    metadata["annotations"].get(RESOURCE_SPEC),
                    one.bind_policy,
                    is_required=one.is_required,
                )
    return _normal(found)


def _reported(given: Object) -> NodeTopology:
    if given["NRT"] is None:
        return NodeTopology()
    return node_topology(read_node_resource_topology(json.dumps(given["NRT"]).encode()))


def _machine(given: Object, reported: NodeTopology) -> NUMAMachine:
    metadata = given["Node"]["metadata"]
    machine = numa_machine(reported, metadata["labels"], metadata["annotations"], [])
    return replace(machine, shares=given["MaxRef"] or 1)


def _topology(reported: NodeTopology, machine: NUMAMachine) -> Object:
    return {
        "reserved": cpuset.render(reported.reserved),
        "policy": reported.policy.value,
        "cpus": len(reported.cpus.cpus),
        "cores": reported.cpus.cores,
        "nodes": reported.cpus.nodes,
        "sockets": reported.cpus.sockets,
        "bind": {"": "None", "FullPCPUs": "FullPCPUsOnly"}.get(
            machine.bind_policy.value, machine.bind_policy.value
        ),
        "resources": {
            str(node): {
                name: f"{amount}m" if name == CPU else amount for name, amount in has.items()
            }
            for node, has in reported.zones.items()
        },
    }


def _settings(given: Object) -> NUMASettings:
    args, weights = given["Args"], given["Weights"]
    return NUMASettings(
        CPUBindPolicy(args["Bind"]),
        AmountScorer(STRATEGIES[args["Score"]], weights),
        AmountScorer(STRATEGIES[args["NUMAScore"]], weights),
    )


def _had(given: Object) -> NodeAllocation:
    had = NodeAllocation()
    for pod in given["Placed"]:
        had.add(placed_allocation(pod["metadata"]["annotations"]))
    return had


def _use(given: Object) -> NodeUse:
    placed = (read_pod(json.dumps(pod).encode()) for pod in given["Placed"])
    requested = added(placed_requests(pod).amounts for pod in placed)
    return NodeUse(amounts(given["Node"]["status"]["allocatable"]), requested)


def _status(rejection: NUMARejection | None) -> Object:
    if rejection is None:
        return {"code": "Success"}
    code = "Unschedulable" if rejection.resolvable else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": sorted(rejection.reasons)}


def _normal(recorded: Object) -> dict[str, Any]:
    """With amounts as numbers: the same quantity is spelled in several ways."""
    found = dict(recorded)
    if "topology" in found:
        zones = {node: amounts(has) for node, has in found["topology"]["resources"].items()}
        found["topology"] = {**found["topology"], "resources": zones}
    if status := found.get(RESOURCE_STATUS):
        decoded = json.loads(status)
        zones = {
            str(one["node"]): amounts(one["resources"])
            for one in decoded.get("numaNodeResources") or ()
        }
        found[RESOURCE_STATUS] = {"cpuset": decoded.get("cpuset", ""), "zones": zones}
    if spec := found.pop(RESOURCE_SPEC, None):
        found[RESOURCE_SPEC] = json.loads(spec)
    return leaves(found)


def by_plugin(vector: Vector) -> Fields:
    """The same, by the plugin on columns: without what only functions have."""
    given = vector.given
    if given["MaxRef"]:
        return {}
    nodes, plugin = ClusterState(), NodeNUMAResource(_settings(given))
    plugin.prepare(nodes)
    row = nodes.set(read_node(json.dumps(given["Node"]).encode()))
    if given["NRT"] is not None:
        nodes.use(NUMAColumns).set_topology(
            "n", read_node_resource_topology(json.dumps(given["NRT"]).encode())
        )
    for one in given["Placed"]:
        placed = {**one, "spec": {**one["spec"], "nodeName": "n"}}
        nodes.add_pod("n", PodReader(nodes).read(json.dumps(placed).encode()).usage)
    pod = pod_class(read_pod(json.dumps(given["Pod"]).encode()), nodes.features.values())
    rows = np.array([row])
    if rejection := plugin.pre_filter(pod, nodes).rejection:
        return leaves({"prefilter": {"reasons": [rejection]}})
    reasons = [one.text for one in plugin.reasons(pod, nodes, rows) if one.rows[0]]
    can_run = plugin.filter(pod, nodes)
    assert (can_run is None or bool(can_run(rows)[0])) is (not reasons)
    if reasons:
        return leaves({"filter": {"reasons": sorted(reasons)}})
    score, reservation = plugin.score(pod, nodes), plugin.reserve(pod, nodes, row)
    found: Object = {} if score is None else {"score": score(rows)[0]}
    return _normal(found | dict(reservation.annotations if reservation else ()))


def of_plugin(recorded: Object) -> Fields:
    """What nodes are rejected for, how they are scored, and what is written."""
    found = {name: recorded[name] for name in (RESOURCE_STATUS, RESOURCE_SPEC) if name in recorded}
    if found.get(RESOURCE_STATUS) == "{}":
        del found[RESOURCE_STATUS]
    if recorded.get("reserve", {}).get("reasons"):
        return leaves({"filter": {"reasons": recorded["reserve"]["reasons"]}})
    for name in ("prefilter", "filter"):
        if reasons := recorded.get(name, {}).get("reasons"):
            found[name] = {"reasons": reasons}
    if "score" in recorded:
        found["score"] = recorded["score"]
    return _normal(found)


def several_pods_on_a_cpu(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Only other plugins of Koordinator's can allow it."""
    return bool(vector.given["MaxRef"])


def gaps_between_numbers(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator panics where NUMA nodes have higher numbers than there are nodes."""
    return "panic" in vector.recorded


def no_cpu_topology(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator forgets what pods have on nodes whose CPUs it does not know, and rejects all pods
    there where CPU is amplified."""
    nrt = vector.given["NRT"]
    return nrt is None or nrt["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"] == "{}"


def cores_that_differ(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator compares each with the mean of all, and gives halves of cores as whole ones."""
    sizes = Counter((socket, core) for socket, _, core, _ in vector.given["Topology"])
    return len(set(sizes.values())) > 1


def test_pods_get_the_cpus_that_koordinator_gives_them() -> None:
    replay("numa_cpus", cpus, leaves, (cores_that_differ,), decisions=("as_many_as_needed",))


def test_hints_are_merged_as_by_koordinator() -> None:
    replay("numa_hints", hints, leaves)


def test_the_plugin_does_the_same_and_rejects_what_could_not_be_reserved() -> None:
    replay(
        "numa_placement",
        by_plugin,
        of_plugin,
        (gaps_between_numbers, no_cpu_topology, several_pods_on_a_cpu),
        ("nodes_by_their_own_room",),
    )


def test_nodes_are_filtered_scored_and_reserved_as_by_koordinator() -> None:
    replay(
        "numa_placement",
        placement,
        _normal,
        (gaps_between_numbers, no_cpu_topology),
        ("nodes_by_their_own_room",),
    )
