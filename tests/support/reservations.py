"""A cluster with reservations, as the scheduler's API has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from koord_model.keys import ANNOTATION_RESERVATION_AFFINITY, ANNOTATION_RESERVATION_ALLOCATED
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.queue.scheduling_queue import SchedulingQueue
from koord_scheduler.framework.recording import Record, RecordingScheduler, recorded_kind
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.inter_pod_affinity import InterPodAffinity
from koord_scheduler.plugins.node_affinity import NodeAffinity
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.reservation.allocation import ReservationAllocation
from koord_scheduler.plugins.reservation.plugin import ReservationPlugin
from koord_scheduler.plugins.reservation.settings import ReservationSettings
from koord_scheduler.state.cluster_state import ClusterState

OF_WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


class ReservationCluster:
    """Nodes with 8 CPUs each; pods of the label app=web own reservations, unless they say more."""

    def __init__(
        self,
        *nodes: str,
        settings: ReservationSettings | None = None,
        more: Sequence[EnabledPlugin] = (),
        record: Record | None = None,
    ) -> None:
        """With ``more`` plugins; ``record`` hears of all that happens."""
        plugins = (
            EnabledPlugin(NodeResourcesFit()),
            EnabledPlugin(NodeAffinity()),
            EnabledPlugin(InterPodAffinity()),
            EnabledPlugin(ReservationPlugin(settings), weight=5000),
            *more,
        )
        self.profiles = [Profile("default-scheduler", plugins)]
        self.scheduler = Scheduler(self.profiles)
        if record is not None:
            columns, queue = ClusterState(), SchedulingQueue()
            self.scheduler = RecordingScheduler(self.profiles, record, nodes=columns, queue=queue)
        kinds = [*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0)]
        if record is not None:
            kinds = [recorded_kind(one, record, lambda: 0.0) for one in kinds]
        self.kinds = {one.resource.kind: one for one in kinds}
        for name in nodes:
            self.node(name)

    def put(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def node(self, name: str, **labels: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        metadata = {"name": name, "labels": labels}
        self.put("Node", name, {"metadata": metadata, "status": {"allocatable": amounts}})

    def reservation(
        self,
        name: str,
        cpus: str = "4",
        node: str = "",
        *,
        owners: list[Any] | None = None,
        phase: str = "",
        labels: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        pod_labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        document = reservation(
            name,
            cpus,
            node,
            owners=[OF_WEB] if owners is None else owners,
            phase=phase,
            labels=labels,
            pod=pod,
            pod_labels=pod_labels,
            **spec,
        )
        self.put("Reservation", name, document)

    def pod(
        self,
        name: str,
        cpus: str = "2",
        node: str = "",
        *,
        app: str = "web",
        reservation: str = "",
        affinity: Any = None,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        annotations = {}
        if affinity is not None:
            annotations[ANNOTATION_RESERVATION_AFFINITY] = json.dumps(affinity)
        if reservation:
            written = {"name": reservation, "uid": f"u-{reservation}"}
            annotations[ANNOTATION_RESERVATION_ALLOCATED] = json.dumps(written)
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": f"u-{name}",
            "labels": {"app": app, **(labels or {})},
            "annotations": annotations,
        }
        container = {"name": "c", "resources": {"requests": {"cpu": cpus}}}
        spec = {"containers": [container], "nodeName": node, "priority": priority, **spec}
        self.put("Pod", f"shop/{name}", {"metadata": metadata, "spec": spec})

    def decide(self) -> Placement | Refusal | PreemptionPlan:
        decision = self.scheduler.decide(0.0)
        assert isinstance(decision, Placement | Refusal | PreemptionPlan)
        return decision

    def place(self, name: str, cpus: str = "2", **more: Any) -> tuple[str, str]:
        """The node and the reservation that a pod gets; "" and why not where it gets none."""
        self.pod(name, cpus, **more)
        decision = self.decide()
        if not isinstance(decision, Placement):
            return "", self.message(decision)
        assert decision.pod.key == f"shop/{name}"
        return decision.node, allocated(decision)

    def message(self, decision: Refusal | PreemptionPlan) -> str:

        return fit_error_message(diagnose(self.scheduler.scores(decision.pod)))

    def requested(self, node: str) -> int:
        """Millicores."""
        columns = self.scheduler.nodes
        return int(columns.resources.requested[columns.resources.column("cpu"), columns.row(node)])


def allocated(placement: Placement) -> str:
    for one in placement.reserved:
        if isinstance(one, ReservationAllocation):
            written = dict(one.annotations)[ANNOTATION_RESERVATION_ALLOCATED]
            return "" if written is None else str(json.loads(written)["name"])
    return ""


def reservation(
    name: str,
    cpus: str,
    node: str = "",
    *,
    owners: list[Any],
    phase: str = "",
    labels: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    pod_labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpus}}}
    template = {
        "metadata": {"namespace": "shop", "labels": dict(pod_labels or {})},
        "spec": {"containers": [container], **(pod or {})},
    }
    status: dict[str, Any] = {"phase": phase or ("Available" if node else "Pending")}
    if node:
        status |= {"nodeName": node, "allocatable": {"cpu": cpus}}
    return {
        "metadata": {
            "name": name,
            "uid": f"u-{name}",
            "resourceVersion": "7",
            "labels": dict(labels or {}),
        },
        "spec": {"template": template, "owners": owners, "ttl": "0", **spec},
        "status": status,
    }
