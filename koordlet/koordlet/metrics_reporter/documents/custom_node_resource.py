"""Katalyst's CustomNodeResource, as a view of what koordlet reports in its own objects. No IO.

Nothing is measured for it and nothing is read from it: its zones are those of the
NodeResourceTopology, below their sockets; its usage is that of the NodeMetric, by Katalyst's
levels; its reclaimed resources are the batch resources of the Node. On purpose different:
reclaimed resources are 0 where nothing is free, where Katalyst offers a floor all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from koord_model import cpuset
from koord_model.katalyst import LEVELS, RESOURCES
from koord_model.keys import ANNOTATION_NODE_RESERVATION, CPU
from koord_model.node_info import Processor
from koord_model.qos import QoSClass
from koord_model.quantity import milli, quantity_texts
from koord_model.times import rfc3339

from koordlet.qos_manager.eviction.plugins.core.answers import PluginCondition

Object = dict[str, Any]

API_VERSION = "node.katalyst.kubewharf.io/v1alpha1"
KIND = "CustomNodeResource"
TAINT_PREFIX = "node.katalyst.kubewharf.io/"
_EFFECTS = ("NoSchedule", "PreferNoSchedule")
"""Effects of taints; never NoExecute, an eviction without a budget."""
_LEVELS = {qos.value: level for level, qos in LEVELS.items()} | {
    QoSClass.LSE.value: "dedicated_cores"
}
_MEMORY = "memory"


def build(
    node: Mapping[str, Any],
    topology: Mapping[str, Any],
    processors: Iterable[Processor],
    conditions: Iterable[tuple[str, PluginCondition]],
) -> Object:
    """The fields of the object that are ours, without what changes all the time.

    ``topology`` is the NodeResourceTopology as it is reported; ``conditions`` are those of eviction
    plugins.
    """
    metadata = topology["metadata"]
    taints = list(_taints(conditions))
    reclaimed = _reclaimed(node)
    status: Object = {
        "resources": {"allocatable": reclaimed, "capacity": reclaimed},
        "topologyZone": zones(topology["zones"], processors, _reserved(metadata["annotations"])),
        "topologyPolicy": topology["topologyPolicies"][0],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": metadata["name"], "ownerReferences": metadata["ownerReferences"]},
        **({"spec": {"taints": taints}} if taints else {}),
        "status": status,
    }


def with_usage(built: Mapping[str, Any], usage: Mapping[str, Any] | None, now: float) -> Object:
    """Return the object with a heartbeat at ``now`` (seconds since the epoch), and with usage.

    ``usage`` is the status of the NodeMetric; ``None``: nothing is measured yet. Conditions that
    are there stay.
    """
    ready = {
        "type": "AgentReady",
        "status": "True",
        "reason": "KoordletReady",
        "message": "koordlet reports this node",
        "lastHeartbeatTime": rfc3339(now),
    }
    metrics = {} if usage is None else {"nodeMetricStatus": _metrics(usage)}
    conditions = [ready, *built["status"].get("conditions", ())]
    return {**built, "status": {**built["status"], "conditions": conditions, **metrics}}


def _reserved(annotations: Mapping[str, str]) -> frozenset[int]:
    """The CPUs that no pod has, as the NodeResourceTopology names them."""
    reservation = msgspec.json.decode(annotations[ANNOTATION_NODE_RESERVATION])
    return cpuset.parse(reservation.get("reservedCPUs", ""))


def zones(
    reported: Iterable[Mapping[str, Any]],
    processors: Iterable[Processor],
    reserved: frozenset[int] = frozenset(),
) -> list[Object]:
    """Zones of sockets with their NUMA nodes; a NUMA node without CPUs is in no socket.

    ``reserved`` CPUs are named as Katalyst names its own.
    """
    sockets: dict[str, int] = {}
    lists: dict[str, set[int]] = {}
    for processor in processors:
        name = f"node-{processor.node}"
        sockets.setdefault(name, processor.socket)
        lists.setdefault(name, set()).update({processor.id} & reserved)
    found: list[Object] = [
        {"type": "Socket", "name": str(socket), "resources": {}, "children": []}
        for socket in sorted(set(sockets.values()))
    ]
    by_socket = {zone["name"]: zone["children"] for zone in found}
    for zone in reported:
        numa = _numa_zone(zone, frozenset(lists.get(zone["name"], ())))
        socket = sockets.get(zone["name"])
        (found if socket is None else by_socket[str(socket)]).append(numa)
    return found


def _numa_zone(zone: Mapping[str, Any], reserved: frozenset[int]) -> Object:
    amounts = {
        kind: {resource["name"]: resource[kind] for resource in zone["resources"]}
        for kind in ("allocatable", "capacity")
    }
    found = {"type": "Numa", "name": zone["name"].removeprefix("node-"), "resources": amounts}
    if reserved:
        named = {"name": "reserved_cpu_list", "value": cpuset.render(reserved)}
        found["attributes"] = [named]
    return found


def _reclaimed(node: Mapping[str, Any]) -> dict[str, str]:
    """The Node's batch resources by Katalyst's names; 0 where there are none."""
    there = (node.get("status") or {}).get("allocatable") or {}
    return {name: str(there.get(batch, "0")) for name, batch in RESOURCES.items()}


def _taints(conditions: Iterable[tuple[str, PluginCondition]]) -> Iterator[Object]:
    """Taints of conditions that are on Katalyst's object: each effect is LEVEL/EFFECT."""
    for _, condition in conditions:
        for said in condition.effects if condition.on_cnr else ():
            level, _, effect = said.rpartition("/")
            if level in LEVELS and effect in _EFFECTS:
                key = f"{TAINT_PREFIX}{condition.name}"
                yield {"key": key, "effect": effect, "qosLevel": level}


def _metrics(usage: Mapping[str, Any]) -> Object:
    node = usage["nodeMetric"]
    numa = [
        {"numaId": zone["numaNodeID"], "usage": zone["nodeUsage"]["resources"]}
        for zone in node.get("numaUsages", ())
    ]
    return {
        "updateTime": usage["updateTime"],
        "nodeMetric": {
            "genericUsage": node["nodeUsage"]["resources"],
            **({"numaUsage": numa} if numa else {}),
        },
        "groupMetric": list(_groups(usage.get("podsMetric", ()))),
    }


def _groups(pods: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """The usage of all pods of a level together; levels without pods are left out."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        if level := _LEVELS.get(pod["qos"]):
            found.setdefault(level, []).append(pod)
    for level, members in sorted(found.items()):
        amounts = [member["podUsage"]["resources"] for member in members]
        cpu = sum(milli(amount[CPU]) for amount in amounts)
        memory = sum(milli(amount[_MEMORY]) for amount in amounts) // 1000
        yield {
            "QoSLevel": level,
            "genericUsage": quantity_texts({CPU: cpu, _MEMORY: memory}),
            "podList": sorted(f"{member['namespace']}/{member['name']}" for member in members),
        }
