"""Evicts the victims of preemption, and keeps in the API for whom."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio
from koord_kube.core.evictions import DisruptionTarget, EvictedPod
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError
from koord_kube.protocol.pod_requests import status_patch
from koord_kube.protocol.request import Request

from koord_scheduler.framework.decisions import PreemptionPlan
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.limited_writer import Write
from koord_scheduler.state.pod_usage import PlacedPod
from koord_scheduler.state.stand_in import is_stand_in

_STREAMS = 8
_WHY = "preempting to accommodate a higher priority pod"


class VictimEvictor:
    """Deletes victims as kube-scheduler does: with a condition that says why, and no eviction API.

    Disruption budgets were respected as far as possible when the victims were chosen. What fails
    is logged; the pod looks for victims again after a while.
    """

    def __init__(
        self,
        write: Write,
        evictor: PodEvictor,
        preempted: Callable[[PlacedPod, PreemptionPlan], None],
        *,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        """``preempted`` is called for each victim that is being deleted."""
        self._write = write
        self._evictor = evictor
        self._preempted = preempted
        self._on_warning = on_warning
        self._send, self._receive = anyio.create_memory_object_stream[PreemptionPlan | QueuedPod](
            math.inf
        )

    def withdraw(self, pod: QueuedPod) -> None:
        """Say that a pod is not nominated for a node any more, soon."""
        self._send.send_nowait(pod)

    def evict(self, plan: PreemptionPlan) -> None:
        """Evict the victims of a plan, soon."""
        self._send.send_nowait(plan)

    async def run(self) -> None:
        """Evict until cancelled."""
        async with self._send, self._receive, anyio.create_task_group() as group:
            for _ in range(_STREAMS):
                group.start_soon(self._work)

    async def _work(self) -> None:
        async for item in self._receive:
            pod = item if isinstance(item, QueuedPod) else item.pod
            try:
                if isinstance(item, QueuedPod):
                    await self._nominate(pod.key, pod.uid, None)
                else:
                    await self._carry_out(item)
            except NotLeadingError:
                continue
            except ApiError as error:
                self._warn(str(error), pod)

    def _warn(self, reason: str, pod: QueuedPod) -> None:
        self._on_warning(f"{reason} (preemption for {pod.key})")

    async def _carry_out(self, plan: PreemptionPlan) -> None:
        for key in plan.displaced:
            await self._nominate(key, "", None)
        await self._nominate(plan.pod.key, plan.pod.uid, plan.preemption.node)
        message = f"{plan.pod.waiting.scheduler_name}: {_WHY}"
        why = DisruptionTarget("PreemptionByScheduler", message)
        for victim in plan.preemption.victims:
            namespace, _, name = victim.key.partition("/")
            outcome = await self._evictor.delete(EvictedPod(namespace, name, victim.uid), why)
            if outcome.pod_stays:
                self._warn(outcome.reason, plan.pod)
                return
            self._preempted(victim, plan)

    async def _nominate(self, key: str, uid: str, node: str | None) -> None:
        if not is_stand_in(key):  # only pods have a field for it
            await self._do(_nomination(key, uid, node))

    async def _do(self, request: Request) -> None:
        try:
            await self._write(request)
        except NotFoundError:
            pass  # it is gone already


def _nomination(key: str, uid: str, node: str | None) -> Request:
    """The request that says which node a pod waits for; ``None``: for none any more."""
    return status_patch(key, uid, {"nominatedNodeName": node})
