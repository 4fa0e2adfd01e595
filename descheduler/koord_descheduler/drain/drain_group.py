"""A DrainNodeGroup as the API has it, and the DrainNodes that it makes. No IO."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DRAIN_NODE_GROUPS, DRAIN_NODES
from koord_model import label_selector
from koord_model.label_selector import LabelSelector

from koord_descheduler.drain.drain_objects import DOMAIN
from koord_descheduler.drain.drain_spec import read_drain_spec
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.migration.core.documents import kind_of

LABEL_GROUP = f"{DOMAIN}/node-group-uid"
"""Of DrainNodes: the UID of their group."""
_OWN = ("nodeSelector", "confirmState", "executionPolicy", "terminationPolicy")
_LONGEST_NAME = 253


class GroupPhase(StrEnum):
    """The state of a DrainNodeGroup."""

    PENDING = "Pending"
    """Another group is under way."""
    PLANNING = "Planning"
    """Its nodes are planned one by one."""
    WAITING = "Waiting"
    """All are planned that may be; a greater partition confirms more."""
    RUNNING = "Running"
    """Confirmed nodes are emptied."""
    SUCCEEDED = "Succeeded"
    """All are drained that should be."""
    FAILED = "Failed"
    """So are all others; the drain of some failed, or was aborted."""
    ABORTED = "Aborted"
    """All is undone."""

    @property
    def is_end(self) -> bool:
        """True if no further node is planned."""
        return self in (GroupPhase.SUCCEEDED, GroupPhase.FAILED, GroupPhase.ABORTED)


class _Execution(msgspec.Struct):
    partition: int = 0
    paused: bool = False


class _Termination(msgspec.Struct, rename="camel"):
    max_node_count: int | None = None
    percentage_of_resource_reserved: int | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_selector: dict[str, Any]
    confirm_state: str = "WaitForConfirm"
    execution_policy: _Execution = msgspec.field(default_factory=_Execution)
    termination_policy: _Termination = msgspec.field(default_factory=_Termination)


class DrainGroup(NamedTuple):
    """A group; ``template`` is the spec of its DrainNodes. Without a partition none is confirmed.

    ``reserved`` is a percentage, ``None``: any; so is ``most``.
    """

    name: str
    uid: str
    created: str
    nodes: LabelSelector
    is_aborted: bool
    partition: int
    is_paused: bool
    most: int | None
    reserved: int | None
    template: Mapping[str, Any]
    phase: GroupPhase


class GroupDrain(NamedTuple):
    """The DrainNode of a group's node."""

    name: str
    node: str
    phase: DrainPhase
    confirm: str
    message: str
    is_dry_run: bool = False
    has_ended: bool = True

    @property
    def is_confirmed(self) -> bool:
        """True if its pods may move, or have moved."""
        return self.confirm == "Confirmed"

    @property
    def is_undone(self) -> bool:
        """True if nothing of it is left."""
        return self.phase is DrainPhase.ABORTED and self.has_ended

    @property
    def is_failed(self) -> bool:
        """True if it ended otherwise than it should have."""
        return self.phase in (DrainPhase.FAILED, DrainPhase.ABORTED)


def read_group(document: Object) -> DrainGroup:
    """A group.

    Raises:
        ValueError: its spec is not valid; a line with the field.
    """
    given, meta = document.get("spec") or {}, document["metadata"]
    try:
        spec = msgspec.convert(given, _Spec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error}") from None
    template = {name: value for name, value in given.items() if name not in _OWN}
    read_drain_spec(template | {"nodeName": "any"})
    limits = spec.termination_policy
    return DrainGroup(
        meta["name"],
        meta.get("uid", ""),
        meta.get("creationTimestamp", ""),
        label_selector.parse(spec.node_selector, "spec.nodeSelector"),
        spec.confirm_state == "Aborted",
        spec.execution_policy.partition,
        spec.execution_policy.paused,
        limits.max_node_count,
        limits.percentage_of_resource_reserved,
        template,
        GroupPhase((document.get("status") or {}).get("phase") or GroupPhase.PENDING),
    )


def group_drains(group_uid: str, documents: Iterable[Object]) -> list[GroupDrain]:
    """The DrainNodes of a group, in the order in which they were made."""
    own = (each for each in documents if _group_of(each) == group_uid)
    return [_drain(each) for each in sorted(own, key=_order)]


def drain_document(group: DrainGroup, node: str) -> Object:
    """The DrainNode for a node of a group: planned, and not confirmed."""
    owner = {**kind_of(DRAIN_NODE_GROUPS), "name": group.name, "uid": group.uid}
    labels = {LABEL_GROUP: group.uid}
    metadata = {"name": _name(group, node), "labels": labels, "ownerReferences": [owner]}
    return {
        **kind_of(DRAIN_NODES),
        "metadata": metadata,
        "spec": {"nodeName": node, **group.template},
    }


def _name(group: DrainGroup, node: str) -> str:
    name = f"{group.name}-{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: _LONGEST_NAME - 13].rstrip('.-')}-{digest}"


def _group_of(document: Object) -> str:
    return str((document["metadata"].get("labels") or {}).get(LABEL_GROUP, ""))


def _order(document: Object) -> tuple[str, str]:
    return document["metadata"].get("creationTimestamp", ""), document["metadata"]["name"]


def _drain(document: Object) -> GroupDrain:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    return GroupDrain(
        document["metadata"]["name"],
        str(spec.get("nodeName") or ""),
        DrainPhase(status.get("phase") or DrainPhase.PENDING),
        spec.get("confirmState") or "WaitForConfirm",
        status.get("message", ""),
        bool(spec.get("dryRun")),
        bool(status.get("endTime")),
    )
