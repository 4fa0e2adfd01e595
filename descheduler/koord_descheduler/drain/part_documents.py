"""The Reservations and PodMigrationJobs that a drain makes. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    DRAIN_NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    Resource,
)
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
)

from koord_descheduler.drain.drain_acts import MakeJob, MakeReservation
from koord_descheduler.drain.drain_objects import LABEL_DRAIN
from koord_descheduler.drain.drain_view import DrainView

_REASON = "koordinator.sh/evict-reason"
_TRIGGER = "koordinator.sh/evict-trigger"
_DROPPED = ("nodeName", "ephemeralContainers")
_OF_ITS_NODE = (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
)
"""Annotations that say what a pod has where it is."""


def job_document(view: DrainView, act: MakeJob) -> Object:
    """The job that moves a pod: to its Reservation, or by its eviction alone."""
    pod, reservation = act.state.pod.view, act.state.reservation
    reason = f"node {view.spec.node} is drained" + (view.spec.reason and f": {view.spec.reason}")
    annotations = {_REASON: reason, _TRIGGER: f"DrainNode/{view.name}"}
    reference = {"kind": PODS.kind, "apiVersion": "v1"}
    spec: dict[str, Any] = {
        "podRef": reference | {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "mode": "ReservationFirst" if reservation is not None else "EvictDirectly",
        "ttl": view.spec.ttl,
    }
    if reservation is not None:
        reference = _type(RESERVATIONS) | {"name": reservation.name, "uid": reservation.uid}
        spec["reservationOptions"] = {"reservationRef": reference}
    made = _part(view, POD_MIGRATION_JOBS, act.name)
    made["metadata"]["annotations"] = annotations
    return made | {"spec": spec}


def reservation_document(view: DrainView, act: MakeReservation, pod: Object) -> Object:
    """A Reservation for the pod that comes in place of this one, on its planned node.

    It lasts until the drain deletes it.
    """
    meta, target = pod["metadata"], act.state.target
    annotations = (meta.get("annotations") or {}).items()
    template = {
        "metadata": {
            "namespace": meta["namespace"],
            "labels": meta.get("labels") or {},
            "annotations": {name: v for name, v in annotations if name not in _OF_ITS_NODE},
        },
        "spec": _on(target, {k: v for k, v in pod["spec"].items() if k not in _DROPPED}),
    }
    made = _part(view, RESERVATIONS, act.name)
    spec = {
        "template": template,
        "owners": [{"controller": _controller(meta)}],
        "ttl": "0s",
        "allocateOnce": True,
    }
    return made | {"spec": spec}


def _controller(meta: Mapping[str, Any]) -> Object:
    references = meta.get("ownerReferences") or ()
    owner = next(each for each in references if each.get("controller"))
    kept = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid") if name in owner}
    return kept | {"controller": True, "namespace": meta["namespace"]}


def _on(node: str, spec: Mapping[str, Any]) -> Object:
    """The same for this node alone: what was planned as a whole is made as a whole."""
    found: Object = deepcopy(dict(spec))
    affinity = found.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    for term in required.setdefault("nodeSelectorTerms", [{}]):
        term["matchFields"] = [*term.get("matchFields", ()), here]
    return found


def _part(view: DrainView, resource: Resource, name: str) -> Object:
    owner = _type(DRAIN_NODES) | {"name": view.name, "uid": view.uid}
    metadata = {"name": name, "labels": {LABEL_DRAIN: view.uid}, "ownerReferences": [owner]}
    return _type(resource) | {"metadata": metadata}


def _type(resource: Resource) -> Object:
    return {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
