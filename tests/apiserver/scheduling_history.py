"""Recomputes from the API alone whether pods were placed as they may be. No part of ours is asked.

Pods' events come in the order in which the API server stored them, so that what is on a node at
the moment of a binding is exact, whoever bound the pod.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec


class _Meta(msgspec.Struct):
    name: str
    uid: str = ""
    version: str = msgspec.field(default="0", name="resourceVersion")
    namespace: str = ""


class _Resources(msgspec.Struct):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _PodSpec(msgspec.Struct):
    containers: list[_Container] = []
    node: str = msgspec.field(default="", name="nodeName")


class _PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(msgspec.Struct):
    """What of a pod takes room."""

    metadata: _Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def millicores(self) -> int:
        return sum(
            millicores(one.resources.requests.get("cpu", "0")) for one in self.spec.containers
        )


class _NodeSpec(msgspec.Struct):
    taints: list[dict[str, str]] = []
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str] = {}


class Node(msgspec.Struct):
    """What of a node gives room."""

    metadata: _Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)

    @property
    def room(self) -> tuple[int, int]:
        """Millicores, and a number of pods."""
        found = self.status.allocatable
        return millicores(found.get("cpu", "0")), int(found.get("pods", "0"))


def millicores(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


_POD = msgspec.json.Decoder(Pod)
_NODE = msgspec.json.Decoder(Node)


@dataclass
class SchedulingHistory:
    """``room`` is that of every node: millicores, and a number of pods."""

    room: tuple[int, int]
    violations: list[str] = field(default_factory=list)
    bindings: int = 0
    _pods: dict[str, Pod] = field(default_factory=dict)
    _on: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _bound: list[tuple[int, float, str, str]] = field(default_factory=list)
    _nodes: dict[str, list[tuple[int, float, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def pod_event(self, kind: str, raw: bytes, now: float) -> None:
        """A pod's event at ``now`` seconds of a steady clock."""
        pod = _POD.decode(raw)
        uid, name = pod.metadata.uid, pod.metadata.name
        known = self._pods.get(uid)
        if known is not None and known.spec.node and pod.spec.node != known.spec.node:
            self.violations.append(f"{name} moved from {known.spec.node} to {pod.spec.node!r}")
        if pod.spec.node and not (known is not None and known.spec.node) and kind != "DELETED":
            self._bind(pod, now)
        if kind == "DELETED" or pod.status.phase in ("Failed", "Succeeded"):
            self._on[pod.spec.node].pop(uid, None)
        if kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod

    def node_event(self, kind: str, raw: bytes, now: float) -> None:
        """A node's event at ``now`` seconds of the same clock."""
        node = _NODE.decode(raw)
        states = self._nodes[node.metadata.name]
        is_open = kind != "DELETED" and not node.spec.taints and not node.spec.unschedulable
        if not states or states[-1][2] != is_open:
            states.append((int(node.metadata.version), now, is_open))

    def bound_pods(self) -> list[str]:
        """The names of pods that have a node."""
        return [one.metadata.name for one in self._pods.values() if one.spec.node]

    def late_bindings(self) -> list[float]:
        """Of pods that were bound to closed nodes, how many seconds these had been closed for.

        Closed is one that is removed or has a taint; the scheduler hears of it some time later.
        """
        late = []
        for version, now, _, node in self._bound:
            states = self._nodes.get(node, [])
            place = bisect(states, version, key=lambda one: one[0]) - 1
            if place < 0:
                self.violations.append(f"a pod was bound to {node}, which there was not yet")
            elif not states[place][2]:
                late.append(now - states[place][1])
        return late

    def _bind(self, pod: Pod, now: float) -> None:
        self.bindings += 1
        node = pod.spec.node
        on = self._on[node]
        on[pod.metadata.uid] = pod.millicores
        self._bound.append((int(pod.metadata.version), now, pod.metadata.name, node))
        if sum(on.values()) > self.room[0] or len(on) > self.room[1]:
            used = f"{sum(on.values())}m, {len(on)} pods"
            self.violations.append(f"{pod.metadata.name} is too much for {node}: {used}")


def forgotten_pods(pods: Iterable[Pod], nodes: Iterable[Node]) -> list[str]:
    """The pods without a node that would fit on one, looked at one by one."""
    free = {one.metadata.name: list(one.room) for one in nodes if not one.spec.taints}
    waiting: dict[int, str] = {}
    for pod in pods:
        if not pod.spec.node:
            waiting[pod.millicores] = pod.metadata.name
        elif pod.spec.node in free and pod.status.phase not in ("Failed", "Succeeded"):
            free[pod.spec.node][0] -= pod.millicores
            free[pod.spec.node][1] -= 1
    return [
        name
        for asked, name in waiting.items()
        if any(cpu >= asked and slots >= 1 for cpu, slots in free.values())
    ]
