"""NodeResourceTopology: a node's NUMA zones, and in annotations its CPUs. No IO.

Koordinator writes v1alpha1; others that schedule by it read v1alpha2.
"""

from __future__ import annotations

from koord_kube.definitions.definition import AGE, Column, definition
from koord_kube.definitions.schema import list_of, object_of, quantity, text, whole
from koord_kube.protocol.resources import NODE_TOPOLOGIES

_ATTRIBUTE = object_of(
    "One property.", "name", "value", name=text("Its name."), value=text("What it is.")
)
_COST = object_of(
    "The way to another zone.",
    "name",
    "value",
    name=text("The other zone."),
    value=whole("How far it is."),
)
_AMOUNTS = object_of(
    "One resource.",
    "name",
    "capacity",
    "allocatable",
    "available",
    name=text("Its name, such as cpu or kubernetes.io/batch-cpu."),
    capacity=quantity("All there is."),
    allocatable=quantity("What pods may have."),
    available=quantity("What of that nobody has."),
)
_ZONE = object_of(
    "One zone.",
    "name",
    "type",
    name=text("Its name, such as node-0."),
    type=text("What it is: Node is a NUMA node."),
    parent=text("The zone that it is in."),
    costs=list_of("The way to other zones.", _COST),
    attributes=list_of("Properties.", _ATTRIBUTE),
    resources=list_of("What is in it.", _AMOUNTS),
)

_ABOUT = "The NUMA zones of the node of the same name; annotations tell of its CPUs."
_POLICIES = list_of("The kubelet's policy and scope in one word.", text())
_ZONES = list_of("The zones.", _ZONE)

NODE_TOPOLOGY = definition(
    NODE_TOPOLOGIES,
    _ABOUT,
    {"topologyPolicies": _POLICIES, "zones": _ZONES},
    [Column("Policy", ".topologyPolicies[0]"), AGE],
    status=False,
    short=["node-res-topo"],
    required=("topologyPolicies", "zones"),
    newer=(
        "v1alpha2",
        object_of(
            _ABOUT,
            "zones",
            topologyPolicies=_POLICIES,
            attributes=list_of("Properties of the node.", _ATTRIBUTE),
            zones=_ZONES,
        ),
    ),
    approved="https://github.com/kubernetes/enhancements/pull/1870",
)
