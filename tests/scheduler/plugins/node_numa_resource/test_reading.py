"""What cannot be read costs one line, and nothing else."""

from __future__ import annotations

import json

import pytest
from koord_model.keys import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_POD_CPU_ALLOCS,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    ANNOTATION_SYSTEM_QOS_RESOURCE,
    LABEL_NUMA_ALLOCATE_STRATEGY,
    LABEL_NUMA_TOPOLOGY_POLICY,
)
from koord_scheduler.plugins.node_numa_resource.machine import numa_machine
from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.node_topology import (
    NodeTopology,
    node_topology,
)
from koord_scheduler.plugins.node_numa_resource.pod_requirements import (
    completed_spec,
    numa_requirements,
    placed_allocation,
    resource_status,
)
from koord_scheduler.plugins.node_numa_resource.policies import CPUBindPolicy, NUMATopologyPolicy
from koord_scheduler.plugins.node_numa_resource.topology_object import read_node_resource_topology

CPUS = {"detail": [{"id": cpu, "core": cpu, "node": cpu, "socket": 0} for cpu in range(2)]}
ZONES = [
    {"name": f"node-{node}", "type": "Node", "resources": [{"name": "cpu", "allocatable": "1"}]}
    for node in (0, 1, 64)
]


def reported(**annotations: str) -> NodeTopology:
    document = {"metadata": {"name": "n", "annotations": annotations}, "zones": ZONES}
    return node_topology(read_node_resource_topology(json.dumps(document).encode()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ANNOTATION_CPU_MANAGER_POLICY, '{"policy": "static", "reservedCPUs": "0-"}'),
        (ANNOTATION_NODE_RESERVATION, "no JSON"),
        (ANNOTATION_SYSTEM_QOS_RESOURCE, '{"cpuset": 7}'),
        (ANNOTATION_POD_CPU_ALLOCS, '{"uid": "u"}'),
        (ANNOTATION_AMPLIFICATION_RATIO, '{"cpu": "2"}'),
    ],
)
def test_a_bad_annotation_of_a_node_costs_only_itself(key: str, value: str) -> None:
    found = reported(**{ANNOTATION_CPU_TOPOLOGY: json.dumps(CPUS), key: value})
    of_zone, of_annotation = sorted(found.ignored, key=lambda line: key in line)
    assert "node-64" in of_zone
    assert key in of_annotation
    assert "NodeResourceTopology n" in of_annotation
    assert (set(found.zones), set(found.cpus.cpus), found.reserved) == ({0, 1}, {0, 1}, frozenset())


@pytest.mark.parametrize(("of_zones", "cpu"), [(None, 2000), ("{}", 1000), ('{"cpu": 2}', 1000)])
def test_zones_that_say_their_ratio_are_amplified_already(of_zones: str | None, cpu: int) -> None:
    annotations = {} if of_zones is None else {ANNOTATION_AMPLIFICATION_RATIO: of_zones}
    node = {ANNOTATION_AMPLIFICATION_RATIO: '{"cpu": 2}'}
    machine = numa_machine(reported(**annotations), {}, node, [])
    assert machine.zones[0]["cpu"] == cpu


def test_bad_labels_of_a_node_count_as_none() -> None:
    ignored: list[str] = []
    labels = {LABEL_NUMA_TOPOLOGY_POLICY: "Single", LABEL_NUMA_ALLOCATE_STRATEGY: "Any"}
    topology = NodeTopology(policy=NUMATopologyPolicy.RESTRICTED)
    machine = numa_machine(topology, labels, {}, ignored)
    assert (machine.topology_policy, machine.strategy) == (NUMATopologyPolicy.RESTRICTED, None)
    assert len(ignored) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ANNOTATION_RESOURCE_SPEC, "[]"),
        (ANNOTATION_RESOURCE_SPEC, '{"requiredCPUBindPolicy": "Full"}'),
        (ANNOTATION_NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy": 1}'),
    ],
)
def test_a_pod_that_cannot_be_read_says_why(key: str, value: str) -> None:
    assert key in numa_requirements({key: value}, {}, None).problem


@pytest.mark.parametrize("status", ['{"cpuset": "a"}', '{"numaNodeResources": 1}', "{"])
def test_a_status_that_cannot_be_read_is_an_error(status: str) -> None:
    with pytest.raises(ValueError, match="resource-status"):
        placed_allocation({ANNOTATION_RESOURCE_STATUS: status})


def test_a_status_is_read_as_it_was_written() -> None:
    zones = ((0, (("cpu", 1500), ("memory", 1000))), (1, (("hugepages-2Mi", 2 << 20),)))
    allocation = NUMAAllocation(frozenset({0, 1, 5}), zones=zones)
    written = {ANNOTATION_RESOURCE_STATUS: resource_status(allocation)}
    assert placed_allocation(written) == allocation


def test_what_a_pod_says_beside_its_policy_is_kept() -> None:
    given = '{"preferredCPUBindPolicy": "Default", "more": [1]}'
    completed = completed_spec(given, CPUBindPolicy.FULL_PCPUS, is_required=False)
    assert completed is not None
    assert json.loads(completed) == {"preferredCPUBindPolicy": "FullPCPUs", "more": [1]}
