"""A pod's demands on its CPUs and NUMA nodes. No IO.

Annotations ``scheduling.koordinator.sh/resource-spec``, ``numa-topology-spec`` and, once it has a
node, ``resource-status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.pod import Quantities
from koord_model import cpuset
from koord_model.demand import amounts
from koord_model.keys import (
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
)
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import KubeQoS, QoSClass, qos_class
from koord_model.quantity import quantity_texts

from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.policies import (
    CPUBindPolicy,
    CPUExclusivePolicy,
    NUMAExclusive,
    NUMATopologyPolicy,
)

Annotations = Mapping[str, str]


class NUMARequirements(NamedTuple):
    """A pod's demands; ``may_bind`` is true if it is of the kind that gets CPUs of its own.

    ``problem`` says what is wrong with it: it cannot be placed then. ``spec`` is its annotation of
    that name. It ``has_status`` if it got something of a node before, and not the node.
    """

    may_bind: bool = False
    required_bind: CPUBindPolicy = CPUBindPolicy.NONE
    preferred_bind: CPUBindPolicy = CPUBindPolicy.NONE
    exclusive: CPUExclusivePolicy = CPUExclusivePolicy.UNSET
    topology_policy: NUMATopologyPolicy = NUMATopologyPolicy.NONE
    numa_exclusive: NUMAExclusive = NUMAExclusive.UNSET
    problem: str = ""
    spec: str | None = None
    has_status: bool = False


NO_REQUIREMENTS = NUMARequirements()


class _ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    required: CPUBindPolicy = msgspec.field(
        default=CPUBindPolicy.NONE, name="requiredCPUBindPolicy"
    )
    preferred: CPUBindPolicy = msgspec.field(
        default=CPUBindPolicy.NONE, name="preferredCPUBindPolicy"
    )
    exclusive: CPUExclusivePolicy = msgspec.field(
        default=CPUExclusivePolicy.UNSET, name="preferredCPUExclusivePolicy"
    )


class _TopologySpec(msgspec.Struct, frozen=True):
    policy: NUMATopologyPolicy = msgspec.field(
        default=NUMATopologyPolicy.NONE, name="numaTopologyPolicy"
    )
    exclusive: NUMAExclusive = msgspec.field(
        default=NUMAExclusive.UNSET, name="singleNUMANodeExclusive"
    )


class _ZoneStatus(msgspec.Struct, frozen=True):
    node: int = 0
    resources: Quantities | None = None


class _ResourceStatus(msgspec.Struct, frozen=True):
    cpuset: str = ""
    zones: list[_ZoneStatus] | None = msgspec.field(default=None, name="numaNodeResources")


_SPEC = msgspec.json.Decoder(_ResourceSpec)
_TOPOLOGY_SPEC = msgspec.json.Decoder(_TopologySpec)
_STATUS = msgspec.json.Decoder(_ResourceStatus)


def numa_requirements(
    annotations: Annotations, labels: Mapping[str, str], priority: int | None
) -> NUMARequirements:
    """Read a pod's demands. Only pods of class LSE or LSR and priority koord-prod get own CPUs."""
    try:
        spec = _decoded(_SPEC, annotations, ANNOTATION_RESOURCE_SPEC) or _ResourceSpec()
        topology = (
            _decoded(_TOPOLOGY_SPEC, annotations, ANNOTATION_NUMA_TOPOLOGY_SPEC) or _TopologySpec()
        )
    except ValueError as error:
        return NUMARequirements(problem=str(error))
    return NUMARequirements(
        _may_bind(labels, priority),
        spec.required,
        spec.preferred,
        spec.exclusive,
        topology.policy,
        topology.exclusive,
        "",
        annotations.get(ANNOTATION_RESOURCE_SPEC),
        ANNOTATION_RESOURCE_STATUS in annotations,
    )


def placed_allocation(annotations: Annotations) -> NUMAAllocation:
    """Return a placed pod's allocation of CPUs and NUMA nodes.

    Raises:
        ValueError: an annotation is malformed; one line says how.
    """
    status = _decoded(_STATUS, annotations, ANNOTATION_RESOURCE_STATUS)
    if status is None:
        return NUMAAllocation()
    spec = _decoded(_SPEC, annotations, ANNOTATION_RESOURCE_SPEC) or _ResourceSpec()
    zones = tuple(
        (one.node, tuple(sorted(amounts(one.resources).items()))) for one in status.zones or ()
    )
    try:
        cpus = cpuset.parse(status.cpuset)
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_RESOURCE_STATUS}: cpuset {error}") from None
    return NUMAAllocation(cpus, spec.exclusive, zones)


def resource_status(allocation: NUMAAllocation) -> str:
    """The annotation ``resource-status`` for what a pod gets, as koordlet reads it."""
    written: dict[str, Any] = {}
    if allocation.cpus:
        written["cpuset"] = cpuset.render(allocation.cpus)
    if allocation.zones:
        written["numaNodeResources"] = [
            {"node": node, "resources": quantity_texts(dict(has))} for node, has in allocation.zones
        ]
    return msgspec.json.encode(written).decode()


def completed_spec(spec: str | None, used: CPUBindPolicy, *, is_required: bool) -> str | None:
    """The annotation ``resource-spec`` once CPUs were bound by a policy that it does not name.

    ``None``: it may stay as it is. What it says beside that is kept.
    """
    given = _OBJECT.decode(spec) if spec is not None else {}
    was = dict(given)
    required, preferred = "requiredCPUBindPolicy", "preferredCPUBindPolicy"
    if is_required and given.get(required, "") in ("", CPUBindPolicy.DEFAULT):
        given[required] = used.value
    if given.get(preferred) == CPUBindPolicy.DEFAULT:
        given[preferred] = used.value
    if not given.get(required) and not given.get(preferred) and used:
        given[preferred] = used.value
    return msgspec.json.encode(given).decode() if given != was else None


_OBJECT = msgspec.json.Decoder(dict[str, Any])


def may_bind_cpus(labels: Mapping[str, str]) -> bool:
    """True if a pod's class gets CPUs of its own, given the right priority."""
    return qos_class(labels) in (QoSClass.LSE, QoSClass.LSR)


def _may_bind(labels: Mapping[str, str], priority: int | None) -> bool:
    if not may_bind_cpus(labels):
        return False
    found = priority_class_or_default(labels, priority, KubeQoS.BURSTABLE)
    return found is PriorityClass.PROD


def _decoded(decoder: msgspec.json.Decoder[Any], annotations: Annotations, key: str) -> Any | None:
    given = annotations.get(key)
    if given is None:
        return None
    try:
        return decoder.decode(given)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"annotation {key} cannot be used: {error}") from None
