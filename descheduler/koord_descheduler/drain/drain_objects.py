"""The objects of a drain as the API has them: its node, Reservations and jobs. No IO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_model.times import from_rfc3339

DOMAIN = "drain.descheduler.koordinator.sh"
LABEL_DRAIN = f"{DOMAIN}/drain-node-uid"
"""Of Reservations and PodMigrationJobs: the UID of their DrainNode."""
ANNOTATION_CLAIM = f"{DOMAIN}/drain-node"
"""Of a node: its DrainNode, and whether the node was cordoned before. It is written together with
the cordon, so that no crash can separate them."""
FINALIZER = f"{DOMAIN}/uncordon"
IN_PROGRESS, DRAINED = "DrainInProgress", "Drained"
"""Conditions of nodes; Kubernetes' names (KEP 5683)."""


class NodeClaim(NamedTuple):
    """The DrainNode that a node belongs to."""

    drain: str
    uid: str
    was_cordoned: bool

    @property
    def text(self) -> str:
        """The value of the annotation."""
        found = {"name": self.drain, "uid": self.uid, "cordonedBefore": self.was_cordoned}
        return json.dumps(found, separators=(",", ":"))


class DrainedNode(NamedTuple):
    """The node of a drain, at a resource version; ``conditions`` are status by type."""

    name: str
    version: str
    is_cordoned: bool
    claim: NodeClaim | None
    conditions: Mapping[str, str]


class ReservationState(NamedTuple):
    """A Reservation of a drain; ``node`` is "" until it has one, ``why`` says why it has none."""

    name: str
    uid: str
    phase: str
    node: str
    why: str
    created: float


class MigrationState(NamedTuple):
    """A PodMigrationJob of a drain."""

    name: str
    uid: str
    phase: str
    why: str
    created: float

    @property
    def has_ended(self) -> bool:
        """True if nothing more comes of it."""
        return self.phase in ("Succeeded", "Failed", "Aborted")


def part_name(drain_uid: str, pod_uid: str) -> str:
    """The name of a pod's Reservation and job: the same after a restart."""
    return f"drain-{drain_uid[:8]}-{pod_uid}"


def read_node(node: Object) -> DrainedNode:
    """A node.

    Raises:
        ValueError: the annotation of its drain is not valid.
    """
    meta = node["metadata"]
    conditions = (node.get("status") or {}).get("conditions") or ()
    return DrainedNode(
        meta["name"],
        meta.get("resourceVersion", ""),
        bool((node.get("spec") or {}).get("unschedulable")),
        _claim(meta["name"], (meta.get("annotations") or {}).get(ANNOTATION_CLAIM)),
        {each["type"]: each["status"] for each in conditions},
    )


def _claim(node: str, text: str | None) -> NodeClaim | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
        return NodeClaim(str(found["name"]), str(found["uid"]), bool(found["cordonedBefore"]))
    except (ValueError, TypeError, KeyError):
        expected = 'expected {"name":…,"uid":…,"cordonedBefore":…}; remove it if nothing drains it'
        raise ValueError(f"node {node}: annotation {ANNOTATION_CLAIM}: {expected}") from None


def read_reservation(given: Object) -> ReservationState:
    """A Reservation."""
    status = given.get("status") or {}
    why = next(
        (
            str(each.get("message", ""))
            for each in status.get("conditions") or ()
            if each.get("type") == "Scheduled" and each.get("status") == "False"
        ),
        "",
    )
    phase, node = status.get("phase") or "Pending", status.get("nodeName") or ""
    return ReservationState(*_head(given), phase, node, why, _created(given))


def read_job(given: Object) -> MigrationState:
    """A PodMigrationJob."""
    status = given.get("status") or {}
    why = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    return MigrationState(*_head(given), status.get("phase") or "Pending", why, _created(given))


def _head(given: Object) -> tuple[str, str]:
    meta = given["metadata"]
    return meta["name"], meta.get("uid", "")


def _created(given: Object) -> float:
    text: Any = given["metadata"].get("creationTimestamp")
    return from_rfc3339(text) if text else 0.0
