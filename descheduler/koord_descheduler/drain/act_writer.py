"""Carries out the acts of drains, each by one write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from koord_kube.client import Client
from koord_kube.core.evictions import DisruptionTarget, EvictedPod, deletion_request
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import (
    DRAIN_NODES,
    NODES,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
)
from koord_model.times import rfc3339

from koord_descheduler.drain.drain_acts import (
    ClaimNode,
    DeletePod,
    DrainAct,
    DropPart,
    EvictPod,
    KeepFinalizer,
    MakeJob,
    MakeReservation,
    ReleaseNode,
    SetConditions,
)
from koord_descheduler.drain.drain_objects import ANNOTATION_CLAIM, FINALIZER
from koord_descheduler.drain.drain_view import DrainView
from koord_descheduler.drain.part_documents import (
    drain_reason,
    job_document,
    reservation_document,
)
from koord_descheduler.objects.observed_pod import ObservedPod
from koord_descheduler.planner.move import DISRUPTION_REASON


class ActWriter:
    """Writes by ``api``, which is fenced."""

    def __init__(self, api: Client, wall: Callable[[], float]) -> None:
        self._api = api
        self._wall = wall
        self._evictor = PodEvictor(api.write, api.backoff, wall=wall)

    async def perform(self, act: DrainAct, view: DrainView, document: Object) -> bool:
        """Carry out an act of a drain; ``document`` is its DrainNode as last seen.

        Returns False for an eviction that has to wait.

        Raises:
            ConflictError: it is done already, or what it is about has changed.
            NotFoundError: what it is about is gone.
        """
        match act:
            case ClaimNode(version, claim):
                await self._patch_node(view, version, claim.text, {"unschedulable": True})
            case ReleaseNode(version, uncordon):
                spec = {"unschedulable": None} if uncordon else {}
                await self._patch_node(view, version, None, spec)
            case KeepFinalizer(keep):
                await self._keep_finalizer(document, keep=keep)
            case MakeReservation():
                await self._reserve(act, view)
            case MakeJob():
                await self._api.create(POD_MIGRATION_JOBS, job_document(view, act))
            case DropPart(resource, name, uid):
                await self._api.delete(resource, name, uid=uid)
            case DeletePod(state):
                pod = state.pod.view
                evicted = EvictedPod(pod.namespace, pod.name, pod.uid)
                await self._api.write(deletion_request(evicted))
            case EvictPod(state):
                return await self._evict(state.pod.view, view)
            case SetConditions(conditions):
                await self._set_conditions(view, conditions)
        return True

    async def _evict(self, pod: ObservedPod, view: DrainView) -> bool:
        target = DisruptionTarget(DISRUPTION_REASON, drain_reason(view))
        outcome = await self._evictor.evict(EvictedPod(pod.namespace, pod.name, pod.uid), target)
        return not outcome.pod_stays

    async def _patch_node(
        self, view: DrainView, version: str, claim: str | None, spec: dict[str, Any]
    ) -> None:
        """Cordon and claim are one write: no crash comes between them."""
        change = {"metadata": {"annotations": {ANNOTATION_CLAIM: claim}}, "spec": spec}
        await self._api.patch(NODES, view.spec.node, change, version=version)

    async def _keep_finalizer(self, document: Object, *, keep: bool) -> None:
        meta = document["metadata"]
        others = [each for each in meta.get("finalizers") or () if each != FINALIZER]
        change = {"metadata": {"finalizers": [*others, FINALIZER] if keep else others}}
        await self._api.patch(DRAIN_NODES, meta["name"], change, version=meta["resourceVersion"])

    async def _reserve(self, act: MakeReservation, view: DrainView) -> None:
        pod = act.state.pod.view
        document = await self._api.get(PODS, pod.name, pod.namespace)
        if document["metadata"]["uid"] == pod.uid:
            await self._api.create(RESERVATIONS, reservation_document(view, act, document))

    async def _set_conditions(self, view: DrainView, conditions: dict[str, bool]) -> None:
        made = [
            {
                "type": name,
                "status": str(holds),
                "reason": "DrainNode",
                "message": f"DrainNode {view.name}",
                "lastTransitionTime": rfc3339(self._wall()),
                "lastHeartbeatTime": rfc3339(self._wall()),
            }
            for name, holds in conditions.items()
        ]
        body = {"status": {"conditions": made}}
        node = view.spec.node
        request = Request("PATCH", NODES, node, "", "status", body, is_strategic=True)
        await self._api.write(request)
