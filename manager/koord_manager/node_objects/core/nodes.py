"""The cluster's Nodes: of each as much as any controller uses. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from koord_model.demand import amounts
from koord_model.keys import MEMORY

Object = dict[str, Any]


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    created: str = msgspec.field(default="", name="creationTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    capacity: Object | None = None
    allocatable: Object | None = None
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct):
    unschedulable: bool | None = None


class _Node(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODE = msgspec.json.Decoder(_Node)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A Node's identity, labels, annotations, amounts and conditions.

    ``created`` is as Kubernetes writes times; one that ``takes_pods`` is ready and schedulable.
    ``conditions`` are statuses by type. Two can be compared: a heartbeat, for example, does not
    make them differ.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    capacity: Mapping[str, Any] = field(default_factory=dict)
    allocatable: Mapping[str, Any] = field(default_factory=dict)
    takes_pods: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> Object:
        """As the API has it: labels, annotations and amounts."""
        return {
            "metadata": {
                "name": self.name,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "status": {"capacity": self.capacity, "allocatable": self.allocatable},
        }


def read_node(raw: bytes) -> ClusterNode:
    """Decode a Node.

    Raises:
        msgspec.MsgspecError: it is not a Node.
    """
    found = _NODE.decode(raw)
    meta, status = found.metadata, found.status
    conditions = _same(
        tuple(
            (condition.type, condition.status)
            for condition in status.conditions or ()
            if condition.type
        )
    )
    return ClusterNode(
        meta.name,
        meta.uid,
        meta.labels or {},
        meta.annotations or {},
        meta.created,
        status.capacity or {},
        status.allocatable or {},
        not found.spec.unschedulable and conditions.get("Ready") == "True",
        conditions,
    )


@lru_cache(maxsize=1 << 10)
def _same(conditions: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """One object for equal ones: most nodes have the same conditions."""
    return dict(conditions)


def is_gone(before: ClusterNode | None, now: ClusterNode | None) -> bool:
    """True if the earlier Node was deleted.

    It may be another one of its name by now: between two looks it was deleted and made again.
    """
    return before is not None and (now is None or now.uid != before.uid)


def largest_memory(nodes: Iterable[ClusterNode]) -> int:
    """The most memory, in bytes, that a pod can have on any of the nodes; 0 if unknown.

    An amplified allocatable is more than there is.
    """
    return max((_memory(node) for node in nodes), default=0)


def _memory(node: ClusterNode) -> int:
    both = (
        amounts({MEMORY: resources.get(MEMORY)}) for resources in (node.capacity, node.allocatable)
    )
    return min(resources.get(MEMORY, 0) for resources in both)
