"""Writes to the API which node a pod has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS

from koord_scheduler.extender_client import ExtenderClient
from koord_scheduler.extenders.calls import CallFailure
from koord_scheduler.fifo_queue import FifoQueue
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.queue.scheduling_queue import QueuedPod

Write = Callable[[Request], Awaitable[bytes]]
ReadPod = Callable[[str, str], Awaitable[Object]]
"""A pod by its name and namespace."""

STREAMS = 200
"""Bindings under way at a time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class BindingOutcome(Protocol):
    """Who wants to know what became of bindings."""

    def bound(self, placement: Placement) -> None:
        """The pod has its node."""
        ...

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """The pod does not have its node, for sure."""
        ...


class Binder:
    """Binds pods, ``streams`` at a time; each pod is bound, or surely not, before it is let go.

    A binding whose fate is not known (the connection broke, the server answered 500) is looked up
    before anybody decides anew. Where the server asks for patience, that stream waits.
    """

    def __init__(
        self,
        write: Write,
        read: ReadPod,
        outcome: BindingOutcome,
        extenders: ExtenderClient,
        *,
        streams: int = STREAMS,
        on_warning: OnWarning = ignore_warning,
    ) -> None:
        self._write = write
        self._read = read
        self._outcome = outcome
        self._extenders = extenders
        self._streams = streams
        self._on_warning = on_warning
        self._placements: FifoQueue[Placement] = FifoQueue()
        self.unsent = 0
        """Bindings that are not done."""

    def bind(self, placement: Placement) -> None:
        """Bind a pod to a node, soon."""
        self.unsent += 1
        self._placements.put(placement)

    async def run(self) -> None:
        """Bind until cancelled; what is under way then has no outcome."""
        async with anyio.create_task_group() as group:
            for _ in range(self._streams):
                group.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            placement = await self._placements.get()
            try:
                await self._bind_or_delegate(placement)
            finally:
                self.unsent -= 1

    async def _bind_or_delegate(self, placement: Placement) -> None:
        """Have an extender bind a pod if one does; it may have done so even if it failed."""
        call = self._extenders.binder(placement)
        if call is None:
            return await self._bind(placement)
        (answer,) = await self._extenders.ask([call])
        if not isinstance(answer, CallFailure):
            return self._outcome.bound(placement)
        if call.extender.ignorable:
            return await self._bind(placement)
        return await self._look_up(placement, ApiError(answer.text))

    async def _bind(self, placement: Placement) -> None:
        request = binding(placement)
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._write(request)
            except NotLeadingError as error:
                return self._outcome.not_bound(placement.pod, str(error))
            except ApiError as error:
                if error.status == 429:
                    await anyio.sleep(max(error.retry_after, pause))
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    continue
                if 0 < error.status < 500:
                    return self._refused(placement, error)
                return await self._look_up(placement, error)
            return self._outcome.bound(placement)

    def _refused(self, placement: Placement, error: ApiError) -> None:
        self._on_warning(f"{error} (binding to {placement.node})")
        self._outcome.not_bound(placement.pod, str(error))

    async def _look_up(self, placement: Placement, failure: ApiError) -> None:
        """Ask what became of a binding, for as long as it takes."""
        pod = placement.pod
        namespace, _, name = pod.key.partition("/")
        pause = _FIRST_PAUSE
        while True:
            try:
                found = await self._read(name, namespace)
            except NotFoundError:
                return self._outcome.not_bound(pod, "the pod is gone")
            except ApiError as error:
                self._on_warning(f"{error} (after a binding without an answer)")
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            same = found["metadata"].get("uid") == pod.uid
            if same and found["spec"].get("nodeName") == placement.node:
                return self._outcome.bound(placement)
            return self._refused(placement, failure)


def binding(placement: Placement) -> Request:
    """The request that binds a pod; for the pod with this uid alone."""
    pod = placement.pod
    namespace, _, name = pod.key.partition("/")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
    }
    return Request("POST", PODS, name, namespace, "binding", body)
