"""PodMigrationJobs, Reservations and pods for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.migration.core.job import MigrationJob, read_migration_job
from koord_descheduler.migration.core.job_reservation import JobReservation, read_job_reservation
from koord_descheduler.objects.observed_pod import ObservedPod, ObservedPodReader
from koord_kube.protocol.resources import POD_MIGRATION_JOBS, RESERVATIONS
from koord_model.times import rfc3339

from tests.descheduler.clusters import NOW, pod

Document = dict[str, Any]
POD_REF = {"namespace": "default", "name": "p", "uid": "uid-p"}
ORIGIN = {"node": "a", "controller": "uid-of-app", "replicas": 3}


def job_document(
    name: str = "j",
    *,
    ref: Document | None = None,
    ago: float = 10.0,
    phase: str = "Running",
    conditions: Sequence[tuple[str, ...]] = (),
    reservation: str = "",
    new_pod: Document | None = None,
    node: str = "",
    status: Document | None = None,
    annotations: dict[str, str] | None = None,
    origin: Document | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Document:
    """A job that began; ``conditions`` are type, status, reason, message."""
    written = dict(annotations or {})
    if phase != "":
        written["descheduler.koordinator.sh/origin"] = json.dumps(origin or ORIGIN)
    spec = {"podRef": ref if ref is not None else POD_REF, "ttl": "5m", **spec}
    if reservation:
        spec["reservationOptions"] = {"reservationRef": {"name": reservation}}
    keys = ("type", "status", "reason", "message")
    made = [
        {**dict(zip(keys, one, strict=False)), "lastTransitionTime": rfc3339(NOW - 5)}
        for one in conditions
    ]
    found: Document = {"phase": phase} if phase else {}
    found |= {"conditions": made} if made else {}
    found |= {"nodeName": node} if node else {}
    found |= {"podRef": new_pod} if new_pod else {}
    return {
        **kind_of(POD_MIGRATION_JOBS),
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": rfc3339(NOW - ago),
            "annotations": written,
            "labels": labels or {},
        },
        "spec": spec,
        "status": found | (status or {}),
    }


def job(name: str = "j", **fields: Any) -> MigrationJob:
    return read_migration_job(json.dumps(job_document(name, **fields)).encode())


def reservation_status(
    phase: str = "Pending", node: str = "", taken_by: Sequence[Document] = (), why: str = ""
) -> Document:
    """The status that the scheduler gives."""
    conditions = []
    if node:
        conditions.append({"type": "Scheduled", "status": "True", "reason": "Scheduled"})
    if phase == "Pending" and why:
        conditions.append(
            {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": why}
        )
    elif phase == "Failed":
        conditions.append({"type": "Ready", "status": "False", "reason": why})
    found: Document = {"phase": phase, "conditions": conditions}
    found |= {"nodeName": node} if node else {}
    return found | ({"currentOwners": list(taken_by)} if taken_by else {})


def reservation_document(
    name: str = "uid-j",
    *,
    of: str = "j",
    order: bool = True,
    owners: Sequence[Document] | None = None,
    **status: Any,
) -> Document:
    """The Reservation of a job."""
    metadata: Document = {"name": name, "uid": f"uid-{name}"}
    if order:
        metadata["labels"] = {"scheduling.koordinator.sh/reservation-order": "1"}
    if of:
        owner = {**kind_of(POD_MIGRATION_JOBS), "name": of, "uid": f"uid-{of}"}
        metadata["ownerReferences"] = [owner]
    controller = [{"controller": {"kind": "ReplicaSet", "name": "app", "uid": "uid-of-app"}}]
    return {
        **kind_of(RESERVATIONS),
        "metadata": metadata,
        "spec": {"owners": controller if owners is None else list(owners)},
        "status": reservation_status(**status),
    }


def reservation(name: str = "uid-j", **fields: Any) -> JobReservation:
    return read_job_reservation(json.dumps(reservation_document(name, **fields)).encode())


def view(name: str = "p", on: str = "a", **fields: Any) -> ObservedPod:
    return ObservedPodReader().read(json.dumps(pod(name, on, **fields)).encode())
