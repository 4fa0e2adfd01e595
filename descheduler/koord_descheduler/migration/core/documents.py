"""Documents that migrations write: jobs, what is noted when one begins, Reservations. No IO."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import msgspec
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import POD_MIGRATION_JOBS, RESERVATIONS, Resource
from koord_model import duration
from koord_model.keys import LABEL_RESERVATION_ORDER

from koord_descheduler.migration.core.job import (
    ANNOTATION_CREATED_BY,
    ANNOTATION_MOVE_SET,
    ANNOTATION_ORIGIN,
    ANNOTATION_PASSED,
    ANNOTATION_PREFERRED_NODE,
    ANNOTATION_REASON,
    ANNOTATION_REQUIRED_NODE,
    ANNOTATION_TRIGGER,
    LONGEST_WITHOUT_TTL,
    JobOrigin,
    MigrationJob,
)
from koord_descheduler.migration.core.reserved_pod import (
    node_affinity,
    node_field,
    pod_owners,
    pod_template,
    require_nodes,
)
from koord_descheduler.planner.move import Move
from koord_descheduler.plugins.migration_controller.args import (
    MigrationControllerArgs,
    MigrationMode,
)

LABEL_CREATED_BY = "app.kubernetes.io/created-by"
_CREATOR = "koord-descheduler"


def request_of(
    move: Move,
    args: MigrationControllerArgs,
    created_by: str,
    name: str,
) -> Request:
    """The request that makes a job of a move; ``created_by`` has to be the same after a restart.

    A pod for which no place is needed is evicted directly. The planned place is preferred, or
    required if the move is pinned: then the pod moves there, or not at all.
    """
    annotations = {
        ANNOTATION_REASON: move.reason,
        ANNOTATION_TRIGGER: move.plugin,
        ANNOTATION_CREATED_BY: created_by,
    }
    if move.target:
        key = ANNOTATION_REQUIRED_NODE if move.is_pinned else ANNOTATION_PREFERRED_NODE
        annotations[key] = move.target
    if move.move_set is not None:
        annotations[ANNOTATION_MOVE_SET] = msgspec.json.encode(move.move_set).decode()
    pod = move.pod
    spec: Object = {
        "podRef": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "mode": (args.default_job_mode if move.target else MigrationMode.EVICT_DIRECTLY).value,
    }
    if args.ttl:
        spec["ttl"] = args.default_job_ttl
    if args.default_delete_options is not None:
        spec["deleteOptions"] = args.default_delete_options.document()
    metadata = {"name": name, "annotations": annotations}
    body = {**kind_of(POD_MIGRATION_JOBS), "metadata": metadata, "spec": spec}
    return Request("POST", POD_MIGRATION_JOBS, body=body)


def begin_patch(job: MigrationJob, uid: str, origin: JobOrigin) -> Object:
    """The note that a job begins, about the pod with this uid."""
    written = msgspec.json.encode(origin).decode()
    annotations = {ANNOTATION_PASSED: "true", ANNOTATION_ORIGIN: written}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"podRef": {"uid": job.pod.uid or uid}},
    }


def reservation_document(job: MigrationJob, pod: Object, now: float) -> Object:
    """The Reservation of a place for a pod, off its node; ``pod`` is its whole document.

    It is the job's: whoever deletes the job deletes it too.

    Raises:
        ValueError: no pod could take it, since nothing makes the pod anew.
    """
    given: Object = copy.deepcopy(dict(job.template or {}))
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    template = spec.get("template") or pod_template(pod)
    template.setdefault("spec", {}).pop("nodeName", None)
    _choose_node(template["spec"], pod.get("spec", {}).get("nodeName", ""), job.annotations)
    owners = spec.get("owners") or pod_owners(pod)
    if not owners:
        raise ValueError("nothing makes the pod anew that could take it; use mode EvictDirectly")
    if not (spec.get("ttl") or spec.get("expires")):
        spec["ttl"] = duration.written(job.ttl or LONGEST_WITHOUT_TTL)
    labels = {
        **(metadata.get("labels") or {}),
        LABEL_CREATED_BY: _CREATOR,
        **reservation_order(now),
    }
    name = metadata.get("name") or job.uid
    owner = {**kind_of(POD_MIGRATION_JOBS), "name": job.name, "uid": job.uid}
    return {
        **kind_of(RESERVATIONS),
        "metadata": {**metadata, "name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {**spec, "template": template, "owners": owners, "allocateOnce": True},
    }


def reservation_order(now: float) -> dict[str, str]:
    """The label by which pods take earlier Reservations first, and these before all others."""
    return {LABEL_RESERVATION_ORDER: str(int(now * 1000))}


def reservation_reference(name: str, uid: str) -> Object:
    """The change of a job that has its Reservation."""
    reference = {**kind_of(RESERVATIONS), "name": name, "uid": uid}
    return {"spec": {"reservationOptions": {"reservationRef": reference}}}


def kind_of(resource: Resource) -> dict[str, str]:
    """The type fields of an object."""
    group = f"{resource.group}/" if resource.group else ""
    return {"apiVersion": f"{group}{resource.version}", "kind": resource.kind}


def _choose_node(spec: Object, source: str, annotations: Mapping[str, str]) -> None:
    """Exclude the node that the pod is on; require or prefer the planned one."""
    required = annotations.get(ANNOTATION_REQUIRED_NODE, "")
    preferred = annotations.get(ANNOTATION_PREFERRED_NODE, "")
    fields = [node_field("NotIn", source)] if source else []
    if required:
        fields.append(node_field("In", required))
    if fields:
        require_nodes(spec, *fields)
    if preferred:
        affinity, key = node_affinity(spec), "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": 100, "preference": {"matchFields": [node_field("In", preferred)]}}
        affinity[key] = [*(affinity.get(key) or ()), term]
