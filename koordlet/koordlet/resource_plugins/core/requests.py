"""Requests to plugins about a pod, from its specification. No IO."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koord_model.allocation import DEDICATED_CORES, SYSTEM_CORES, TopologyHint
from koord_model.demand import Amounts, Demand
from koord_model.katalyst import LEVEL, RESOURCES
from koord_model.keys import CPU
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, kube_qos
from koord_proto import resource_plugin_pb2 as pb

_ROLE, _TYPE = "katalyst.kubewharf.io/pod_role", "katalyst.kubewharf.io/pod_type"
_MAIN = "kubernetes.io/main-container-name"
_NUMA_BINDING = "numa_binding"
_NUMA_BINDINGS = ("katalyst.kubewharf.io/numa_binding", "katalyst.kubewharf.io/memory_enhancement")
_RECLAIMED = {
    name: (theirs, plugin)
    for (theirs, ours), plugin in zip(RESOURCES.items(), ("cpu", "memory"), strict=True)
    for name in (theirs, ours)
}
"""Resources that another resource's plugin allocates, with Katalyst's name of each."""
_KUBE_QOS = {
    KubeQoS.GUARANTEED: "Guaranteed",
    KubeQoS.BURSTABLE: "Burstable",
    KubeQoS.BEST_EFFORT: "BestEffort",
}


@dataclass(frozen=True, slots=True)
class ContainerRequests:
    """A container's requests by the resource whose plugin allocates them: its own name, amount."""

    name: str
    kind: pb.ContainerType
    index: int
    resources: Mapping[str, tuple[str, float]]


def containers(pod: Pod, demand: Demand) -> Iterator[ContainerRequests]:
    """The containers in the order of their start; those that request nothing are left out."""
    names = tuple(demand.container_requests)
    main = pod.annotations.get(_MAIN) or next(iter(names), "")
    listed = [
        *((name, pb.INIT, place) for place, name in enumerate(demand.init_requests)),
        *(
            (name, pb.MAIN if name == main else pb.SIDECAR, place)
            for place, name in enumerate(names)
        ),
    ]
    for name, kind, index in listed:
        amounts = demand.init_requests if kind == pb.INIT else demand.container_requests
        if found := requested(amounts[name]):
            yield ContainerRequests(name, kind, index, found)


def requested(amounts: Amounts) -> dict[str, tuple[str, float]]:
    """Requests by the resource whose plugin allocates them.

    Of two that one plugin would allocate, the one of its own name counts.
    """
    found: dict[str, tuple[str, float]] = {}
    for name, amount in amounts.items():
        theirs, resource = _RECLAIMED.get(name, (name, name))
        if amount > 0 and (resource == name or resource not in amounts):
            found[resource] = (theirs, amount / 1000 if name == CPU else float(amount))
    return found


def container_request(
    pod: Pod, container: ContainerRequests, resource: str, hint: TopologyHint | None = None
) -> pb.ResourceRequest:
    """The request about one resource of a container."""
    name, amount = container.resources[resource]
    return pb.ResourceRequest(
        pod_uid=pod.uid,
        pod_namespace=pod.namespace,
        pod_name=pod.name,
        container_name=container.name,
        container_type=container.kind,
        container_index=container.index,
        pod_role=pod.labels.get(_ROLE, ""),
        pod_type=pod.annotations.get(_TYPE, ""),
        resource_name=resource,
        hint=_hint(hint),
        resource_requests={name: amount},
        labels=pod.labels,
        annotations=pod.annotations,
        native_qos_class=_KUBE_QOS[kube_qos(pod.cgroup_parent)],
    )


def pod_request(pod: Pod, demand: Demand, resource: str) -> pb.PodResourceRequest:
    """The request about one resource of a whole pod."""
    name, amount = requested(demand.requests)[resource]
    return pb.PodResourceRequest(
        pod_uid=pod.uid,
        pod_namespace=pod.namespace,
        pod_name=pod.name,
        pod_role=pod.labels.get(_ROLE, ""),
        pod_type=pod.annotations.get(_TYPE, ""),
        resource_name=resource,
        resource_requests={name: amount},
        labels=pod.labels,
        annotations=pod.annotations,
    )


def is_skipped(pod: Pod, demand: Demand) -> bool:
    """True for pods of DaemonSets, unless they are system_cores: Katalyst leaves them alone."""
    return demand.controller == "DaemonSet" and pod.annotations.get(LEVEL) != SYSTEM_CORES


def requires_hint(pod: Pod) -> bool:
    """True if a pod must not run without its NUMA nodes: dedicated_cores bound to them."""
    if pod.annotations.get(LEVEL) != DEDICATED_CORES:
        return False
    return any(_binds(pod.annotations.get(key, "")) for key in _NUMA_BINDINGS)


def _binds(text: str) -> bool:
    """True for the word itself, and for a JSON object that says so."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return False
    return found is True or (isinstance(found, dict) and found.get(_NUMA_BINDING) == "true")


def _hint(hint: TopologyHint | None) -> pb.TopologyHint | None:
    if hint is None:
        return None
    mask = hint.nodes or 0
    nodes = [node for node in range(mask.bit_length()) if mask >> node & 1]
    return pb.TopologyHint(nodes=nodes, preferred=hint.preferred)
