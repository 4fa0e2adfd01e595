"""The Reservations and PodMigrationJobs that a drain makes. No IO."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    DRAIN_NODES,
    POD_MIGRATION_JOBS,
    RESERVATIONS,
    Resource,
)

from koord_descheduler.drain.drain_acts import MakeJob, MakeReservation
from koord_descheduler.drain.drain_objects import LABEL_DRAIN
from koord_descheduler.drain.drain_view import DrainView
from koord_descheduler.migration.core.documents import kind_of, reservation_order
from koord_descheduler.migration.core.job import ANNOTATION_REASON, ANNOTATION_TRIGGER
from koord_descheduler.migration.core.reserved_pod import (
    node_field,
    pod_owners,
    pod_template,
    require_nodes,
)
from koord_descheduler.plugins.migration_controller.who_may_move import ANNOTATION_EVICT


def drain_reason(view: DrainView) -> str:
    """The reason why pods leave their node, in a line."""
    return f"node {view.spec.node} is drained" + (view.spec.reason and f": {view.spec.reason}")


def job_document(view: DrainView, act: MakeJob) -> Object:
    """The job that moves a pod: to its Reservation, or by its eviction alone.

    Where a rule says that the pod moves, rules of migrations do not keep it.
    """
    pod, reservation = act.state.pod.view, act.state.reservation
    annotations = {
        ANNOTATION_REASON: drain_reason(view),
        ANNOTATION_TRIGGER: f"DrainNode/{view.name}",
    }
    if act.state.pod.is_ordered:
        annotations[ANNOTATION_EVICT] = view.name
    spec: dict[str, Any] = {
        "podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "mode": "ReservationFirst" if reservation is not None else "EvictDirectly",
        "ttl": view.spec.ttl,
    }
    if reservation is not None:
        reference = kind_of(RESERVATIONS) | {"name": reservation.name, "uid": reservation.uid}
        spec["reservationOptions"] = {"reservationRef": reference}
    made = _part(view, POD_MIGRATION_JOBS, act.name)
    made["metadata"]["annotations"] = annotations
    return made | {"spec": spec}


def reservation_document(view: DrainView, act: MakeReservation, pod: Object) -> Object:
    """A Reservation for the pod that comes in place of this one.

    It is for its planned node alone: what was planned as a whole is made as a whole. It lasts
    until the drain deletes it.
    """
    template = pod_template(pod)
    require_nodes(template["spec"], node_field("In", act.state.target))
    made = _part(view, RESERVATIONS, act.name)
    made["metadata"]["labels"] |= reservation_order(view.now)
    owners = pod_owners(pod)
    spec = {"template": template, "owners": owners, "ttl": "0s", "allocateOnce": True}
    return made | {"spec": spec}


def _part(view: DrainView, resource: Resource, name: str) -> Object:
    owner = kind_of(DRAIN_NODES) | {"name": view.name, "uid": view.uid}
    metadata = {"name": name, "labels": {LABEL_DRAIN: view.uid}, "ownerReferences": [owner]}
    return kind_of(resource) | {"metadata": metadata}
