"""Writes to the API which node a pod has, or an object that waits as one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import anyio
import msgspec
from koord_kube.answers import Answer, answer_of
from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS, Resource
from koord_kube.shared_backoff import SharedBackoff

from koord_scheduler.extenders.calls import CallFailure
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.extender_client import ExtenderClient
from koord_scheduler.io.fifo_queue import FifoQueue
from koord_scheduler.io.limited_writer import STREAMS, Submit
from koord_scheduler.io.look_up import ReadObject, look_up
from koord_scheduler.io.placement_annotations import placement_annotations

TakeBack = Callable[[Placement], Awaitable[None]]
"""Takes back what was written for a pod before it was bound."""


async def _take_nothing_back(placement: Placement) -> None:
    """Nothing was written before."""


ReadAny = Callable[[Resource, str, str], Awaitable[Object]]
"""Reads an object of a kind by name and namespace."""


async def _read_nothing(resource: Resource, name: str, namespace: str) -> Object:
    raise NotFoundError(f"there is no {resource.kind} {name}", 404)


class BindingOutcome(Protocol):
    """Listener for the outcomes of bindings."""

    def bound(self, placement: Placement) -> None:
        """The pod has its node."""
        ...

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """The pod does not have its node, for sure."""
        ...


class Binder:
    """Binds pods, ``streams`` at a time; each pod is bound, or surely not, before it is let go.

    A binding whose fate is not known (the connection broke, the server answered 500) is looked up
    before anybody decides anew.
    """

    def __init__(
        self,
        submit: Submit,
        read: ReadObject,
        outcome: BindingOutcome,
        extenders: ExtenderClient,
        *,
        take_back: TakeBack = _take_nothing_back,
        streams: int = STREAMS,
        read_object: ReadAny = _read_nothing,
        on_warning: OnWarning = ignore_warning,
        wall: Callable[[], float] = time.time,
        backoff: SharedBackoff | None = None,
    ) -> None:
        self._backoff = backoff or SharedBackoff()
        self._submit = submit
        self._read = read
        self._outcome = outcome
        self._extenders = extenders
        self._take_back = take_back
        self._streams = streams
        self._read_object = read_object
        self._on_warning = on_warning
        self._wall = wall
        self._waiting: deque[Placement] = deque()
        self._steps: FifoQueue[tuple[Placement, Answer | None]] = FifoQueue()
        """Placements whose binding is answered; ``None``: it takes more than that to bind them."""
        self._under_way = 0
        self.unsent = 0
        """Bindings that are not done."""

    def bind(self, placement: Placement) -> None:
        """Bind a pod to a node, soon."""
        self.unsent += 1
        self._waiting.append(placement)
        self._begin()

    async def run(self) -> None:
        """Bind until cancelled; what is under way then has no outcome."""
        async with anyio.create_task_group() as group:
            while True:
                placement, answer = await self._steps.get()
                if isinstance(answer, bytes):
                    self._outcome.bound(placement)
                    self._done()
                else:
                    group.start_soon(self._finish, placement, answer)

    def _begin(self) -> None:
        """Begin with as many as may be under way: most need no task, but one call of ``_take``."""
        while self._waiting and self._under_way < self._streams:
            placement = self._waiting.popleft()
            self._under_way += 1
            if placement.pod.waiting.stands_for is None and not self._extenders.binder(placement):
                self._submit(binding(placement), partial(self._take, placement))
            else:
                self._take(placement, None)

    def _take(self, placement: Placement, answer: Answer | None) -> None:
        self._steps.put((placement, answer))

    def _done(self) -> None:
        self._under_way -= 1
        self.unsent -= 1
        self._begin()

    async def _finish(self, placement: Placement, failure: ApiError | None) -> None:
        try:
            if failure is None:
                await self._bind_or_delegate(placement)
            else:
                await self._failed(placement, failure)
        finally:
            self._done()

    async def _bind_or_delegate(self, placement: Placement) -> None:
        """Have an extender bind a pod if one does; it may have done so even if it failed."""
        is_pod = placement.pod.waiting.stands_for is None
        call = self._extenders.binder(placement) if is_pod else None
        if call is None:
            return await self._bind(placement)
        (answer,) = await self._extenders.ask([call])
        if not isinstance(answer, CallFailure):
            return self._outcome.bound(placement)
        if call.extender.ignorable:
            return await self._bind(placement)
        return await self._look_up(placement, ApiError(answer.text))

    async def _bind(self, placement: Placement) -> None:
        try:
            await self._write(await self._request(placement))
        except ApiError as error:
            return await self._failed(placement, error)
        return self._outcome.bound(placement)

    async def _write(self, request: Request) -> bytes:
        return await answer_of(self._submit, request)

    async def _failed(self, placement: Placement, error: ApiError) -> None:
        if isinstance(error, NotLeadingError):
            return await self._not_bound(placement, str(error))
        if 0 < error.status < 500:
            return await self._refused(placement, error)
        return await self._look_up(placement, error)

    async def _request(self, placement: Placement) -> Request:
        """Bind a pod, or an object that waits as one, after writing its annotations."""
        stand_in = placement.pod.waiting.stands_for
        if stand_in is None:
            return binding(placement)
        if annotations := placement_annotations(placement):
            written = await self._write(stand_in.annotated(annotations))
            stand_in = stand_in.written(msgspec.json.decode(written))
        return stand_in.bound(placement.node, self._wall())

    async def _refused(self, placement: Placement, error: ApiError) -> None:
        # What all such failures share comes last, so that they are logged once.
        self._on_warning(f"binding to {placement.node}, {error}")
        await self._not_bound(placement, str(error))

    async def _not_bound(self, placement: Placement, reason: str) -> None:
        """Its turn comes again only once nothing is left of this attempt."""
        if placement.reserved:
            await self._take_back(placement)
        self._outcome.not_bound(placement.pod, reason)

    async def _look_up(self, placement: Placement, failure: ApiError) -> None:
        """Ask what became of a binding, for as long as it takes."""
        pod = placement.pod
        stand_in, why = pod.waiting.stands_for, "a binding without an answer"
        namespace, _, name = pod.key.partition("/")
        read: ReadObject = self._read
        if stand_in is not None:
            read, namespace = partial(self._read_object, stand_in.resource), ""
        found = await look_up(read, name, namespace, self._on_warning, why, self._backoff)
        if found is None:
            return await self._not_bound(placement, "it is gone")
        same = found["metadata"].get("uid") == pod.uid
        node = found.get("spec", {}).get("nodeName")
        if stand_in is not None:
            node = stand_in.node_of(found)
        if same and node == placement.node:
            return self._outcome.bound(placement)
        return await self._refused(placement, failure)


def binding(placement: Placement) -> Request:
    """The request that binds a pod; for the pod with this uid alone."""
    pod = placement.pod
    namespace, _, name = pod.key.partition("/")
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": pod.uid}
    if placement.release is not None:  # the API server puts them on the pod
        metadata["annotations"] = placement.release.annotations
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
    }
    return Request("POST", PODS, name, namespace, "binding", body)
