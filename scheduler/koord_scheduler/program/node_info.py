"""A node as Koordinator's schedulers show it: what Go makes of their ``NodeInfo``. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from koord_model.keys import CPU, MEMORY

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import Node
from koord_scheduler.program.explanation import Document
from koord_scheduler.state.pod_usage import PlacedPod
from koord_scheduler.state.resources import ALWAYS, EPHEMERAL_STORAGE, PODS


def node_info(scheduler: Scheduler, node: Node) -> Document:
    """Describe a node of the scheduler, and the pods that are or will be on it."""
    row, resources = scheduler.nodes.row_of_pods(node.name), scheduler.nodes.resources
    pods = list(scheduler.placed.on(row))
    allocatable = _whole(resources.allocatable_on(row))
    requested = _whole(resources.asked_on(row)) | {PODS: 0}  # as in Kubernetes
    remaining = {name: allocatable.get(name, 0) - amount for name, amount in requested.items()}
    cpu, memory = resources.scored[:, row].tolist()
    return {
        "node": _without_nothing(msgspec.to_builtins(node)),
        "pods": [_pod_info(pod) for pod in pods],
        "usedPorts": _used_ports(pods),
        "requested": _resource(requested),
        "nonZeroRequested": _resource({CPU: int(cpu), MEMORY: int(memory)}),
        "remaining": _resource(remaining),
        "allocatable": _resource(allocatable),
    }


def _whole(amounts: Mapping[str, float]) -> dict[str, int]:
    return {name: int(amount) for name, amount in amounts.items()}


def _resource(amounts: dict[str, int]) -> Document:
    """The fields of ``framework.Resource``, which has no names for JSON."""
    scalars = {name: amount for name, amount in amounts.items() if amount}
    for name in (*ALWAYS, PODS):
        scalars.pop(name, None)
    return {
        "MilliCPU": amounts[CPU],
        "Memory": amounts[MEMORY],
        "EphemeralStorage": amounts.get(EPHEMERAL_STORAGE, 0),
        "AllowedPodNumber": amounts.get(PODS, 0),
        "ScalarResources": scalars or None,
    }


def _pod_info(pod: PlacedPod) -> Document:
    namespace, _, name = pod.key.partition("/")
    metadata = {"name": name, "namespace": namespace, "uid": pod.uid}
    return {"Pod": {"metadata": metadata, "spec": {"nodeName": pod.node, "priority": pod.priority}}}


def _used_ports(pods: Iterable[PlacedPod]) -> dict[str, list[Document]]:
    by_address: dict[str, list[Document]] = defaultdict(list)
    for pod in pods:
        for protocol, port, address in pod.usage.ports:
            by_address[address].append({"Protocol": protocol, "Port": port})
    return by_address


def _without_nothing(value: Any) -> Any:
    """A document without fields that are empty, which Kubernetes leaves out."""
    if isinstance(value, dict):
        shown = {key: _without_nothing(one) for key, one in value.items()}
        return {key: one for key, one in shown.items() if one not in (None, "", [], {}, False)}
    return [_without_nothing(one) for one in value] if isinstance(value, list) else value
