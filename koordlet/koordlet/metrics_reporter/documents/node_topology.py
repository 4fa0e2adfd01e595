"""The NodeResourceTopology of the node: its CPUs, what NUMA nodes hold, which CPUs pods share.

Zones and annotations are Koordinator's (koordlet's states_noderesourcetopology.go). On
purpose different: NUMA nodes count by their ids, not by their number, and need no CPUs;
CPUs that are offline are left out. No IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model.fields import Fields, milli_quantity, quantity
from koord_model.keys import CPU, LABEL_NUMA_RESERVATION
from koord_model.node_info import NumaNode
from koord_model.quantity import quantity_text, whole

from koordlet.metrics_reporter.documents.topology_annotations import TopologyInputs, annotations_of

Object = dict[str, Any]

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
_MEMORY = "memory"
_HUGE = {1 << 30: "hugepages-1Gi", 2 << 20: "hugepages-2Mi"}
_KIND = "Node"


def build(node: Mapping[str, object], inputs: TopologyInputs) -> tuple[Object, tuple[str, ...]]:
    """The object for a Node, and lines on what of the Node's annotations cannot be used."""
    ignored: list[str] = []
    fields = Fields(node, _KIND, ignored)
    metadata = fields.of("metadata")
    name = metadata.text("name")
    labels = {LABEL_MANAGED_BY: "Koordinator"}
    reserving = metadata.of("labels").text(LABEL_NUMA_RESERVATION)
    if reserving:
        labels[LABEL_NUMA_RESERVATION] = reserving
    set_aside = _set_aside(fields.of("status")) if reserving == "true" else {}
    owner = {
        "apiVersion": "v1",
        "kind": _KIND,
        "name": name,
        "uid": metadata.text("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    built = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations_of(metadata.of("annotations"), inputs),
            "ownerReferences": [owner],
        },
        "topologyPolicies": [inputs.kubelet.topology_level if inputs.kubelet else "None"],
        "zones": _zones(inputs, set_aside),
    }
    return built, tuple(ignored)


def _zones(inputs: TopologyInputs, set_aside: Mapping[str, int]) -> list[Object]:
    """Sorted by name, as Koordinator compares them one by one."""
    counts: dict[int, int] = {}
    for processor in inputs.cpus.online:
        counts[processor.node] = counts.get(processor.node, 0) + 1
    memory = {node.id: node for node in inputs.memory.nodes}
    ids = sorted(counts.keys() | memory.keys(), key=str)
    # A NUMA node that has none of something cannot bear a share of it.
    shares = {
        CPU: _share(set_aside.get(CPU, 0), len(counts)),
        _MEMORY: _share(
            set_aside.get(_MEMORY, 0), sum(numa_node.memory > 0 for numa_node in memory.values())
        ),
    }
    zones = []
    for ident in ids:
        there = _amounts(counts.get(ident, 0), memory.get(ident), huge=inputs.huge_pages)
        zones.append(
            {
                "name": f"node-{ident}",
                "type": _KIND,
                "resources": [
                    _resource(name, amount, max(0, amount - shares.get(name, 0)))
                    for name, amount in sorted(there.items())
                ],
            }
        )
    return zones


def _amounts(cpus: int, node: NumaNode | None, *, huge: bool) -> dict[str, int]:
    """CPU in millicores, others in bytes."""
    pages = dict.fromkeys(_HUGE.values(), 0)
    if huge and node is not None:
        pages |= {
            _HUGE[page]: page * number for page, number in node.huge_pages.items() if page in _HUGE
        }
    memory = max(0, node.memory - sum(pages.values())) if node else 0
    return {CPU: cpus * 1000, _MEMORY: memory, **pages}


def _resource(name: str, capacity: int, allocatable: int) -> Object:
    free = quantity_text(name, allocatable)
    return {
        "name": name,
        "capacity": quantity_text(name, capacity),
        "allocatable": free,
        "available": free,
    }


def _set_aside(status: Fields) -> dict[str, int]:
    """Capacity without allocatable: what the kubelet keeps for the system and itself."""
    capacity, allocatable = status.of("capacity"), status.of("allocatable")
    found = {}
    for name, accept in ((CPU, milli_quantity), (_MEMORY, _whole)):
        if capacity.has(name) and allocatable.has(name):
            whole_node = capacity.take(name, 0, accept, "a quantity", "nothing set aside")
            free = allocatable.take(name, whole_node, accept, "a quantity", "nothing set aside")
            found[name] = max(0, whole_node - free)
    return found


def _share(amount: int, number: int) -> int:
    return -(-amount // number) if number else 0


def _whole(given: object) -> int:
    return whole(quantity(given))
