"""The pod that a Reservation keeps a place for, made of the one that is to move. No IO."""

from __future__ import annotations

import copy
from typing import Any

from koord_kube.protocol.api import Object
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
)

from koord_descheduler.migration.core.soft_eviction import ANNOTATION_SOFT_EVICTION

_NOT_COPIED = (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    ANNOTATION_SOFT_EVICTION,
)
"""Annotations that say what a pod has where it is."""


def pod_template(pod: Object) -> Object:
    """The template of a pod as it would wait anew; ``pod`` is its whole document."""
    spec: Object = copy.deepcopy(pod["spec"])
    spec.pop("nodeName", None)
    return {"metadata": _metadata(pod["metadata"]), "spec": spec}


def pod_owners(pod: Object) -> list[Object]:
    """The pod itself while it waits for a node, else its controller."""
    metadata, status = pod["metadata"], pod.get("status", {})
    waits = any(
        (condition.get("type"), condition.get("status")) == ("PodScheduled", "False")
        for condition in status.get("conditions") or ()
    )
    namespace = metadata.get("namespace", "")
    if status.get("phase") == "Pending" and waits:
        name, uid = metadata["name"], metadata.get("uid", "")
        return [{"object": {"kind": "Pod", "name": name, "namespace": namespace, "uid": uid}}]
    return [
        {"controller": {**owner, "namespace": namespace}}
        for owner in metadata.get("ownerReferences") or ()
        if owner.get("controller")
    ]


def node_field(operator: str, node: str) -> Object:
    """A requirement about the name of nodes."""
    return {"key": "metadata.name", "operator": operator, "values": [node]}


def require_nodes(spec: Object, *fields: Object) -> None:
    """Add requirements to each way in which a pod chooses nodes."""
    terms = _child(node_affinity(spec), "requiredDuringSchedulingIgnoredDuringExecution")
    terms["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        for term in terms.get("nodeSelectorTerms") or [{}]
    ]


def node_affinity(spec: Object) -> dict[str, Any]:
    """The node affinity of a pod, to be changed."""
    return _child(_child(spec, "affinity"), "nodeAffinity")


def _metadata(metadata: Object) -> Object:
    copied = ("name", "namespace", "labels")
    found: Object = {name: metadata[name] for name in copied if name in metadata}
    annotations = metadata.get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name not in _NOT_COPIED}
    return {**found, "annotations": kept} if kept else found


def _child(of: Object, name: str) -> dict[str, Any]:
    found: dict[str, Any] = of.get(name) or {}
    of[name] = found
    return found
