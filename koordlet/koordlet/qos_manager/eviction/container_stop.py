"""Stops a pod's containers at the runtime, if no API can end the pod or the settings say so.

This is not an eviction: the pod stays, and a kubelet starts the containers of one with
``restartPolicy: Always`` again. So all of its containers are stopped, not only those before the
first that does not run, and what counts is what runs a little later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from koord_cri.client import CriCallError, CriClient
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_proto import cri_pb2 as cri

from koordlet.states_informer.state.pod_inventory import PodRecord

M = TypeVar("M", bound=Message)

_POD_UID = "io.kubernetes.pod.uid"
_RUNNING = 1
_CALL_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
"""A kubelet looks each second what has ended, and starts it again at once the first time."""
_AGAIN_SECONDS = 60.0


class StopError(Exception):
    """The runtime did not do it; one line. ``late`` is whether it may do it yet."""

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class ContainerStopBackend:
    """CRI StopContainer, at ``endpoint`` ("unix:///run/containerd/containerd.sock")."""

    name = "stopping containers"
    pod_stays = True

    def __init__(
        self, endpoint: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._client = CriClient(endpoint.removeprefix("unix://"))
        self._sleep = sleep

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        """Stop all containers that run, and see whether they stay so."""
        grace = 0 if forced else int(grace_seconds)
        stopping = False
        try:
            running = await self._running(record.pod.uid)
            if not running:
                return EvictionOutcome(EvictionResult.GONE)
            stopping = True
            await self._stop_all(running, grace)
            await self._sleep(_SETTLE_SECONDS)
            left = await self._running(record.pod.uid)
        except StopError as error:
            end = EvictionResult.UNKNOWN if error.late else EvictionResult.FAILED
            return EvictionOutcome(end, str(error), disrupted=stopping)
        if not left:
            return EvictionOutcome(EvictionResult.EVICTED)
        again = sum(container.id not in {before.id for before in running} for container in left)
        reason = "started again by the kubelet" if again else "not stopped"
        names = ", ".join(sorted(container.metadata.name for container in left))
        return EvictionOutcome(
            EvictionResult.FAILED, f"containers {reason}: {names}", _AGAIN_SECONDS, disrupted=True
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _stop_all(self, containers: Sequence[cri.Container], grace: int) -> None:
        """All at once; what one of them meets does not keep the others.

        Raises:
            StopError: the first that was not stopped.
        """
        results = await asyncio.gather(
            *(self._stop(container.id, grace) for container in containers), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _stop(self, container: str, grace: int) -> None:
        request = cri.StopContainerRequest(container_id=container, timeout=grace)
        # The answer is an empty message.
        await self._call("StopContainer", request, cri.ListRequest, grace + _CALL_SECONDS)

    async def _running(self, uid: str) -> list[cri.Container]:
        wanted = cri.ContainerFilter(label_selector={_POD_UID: uid})
        request = cri.ListContainersRequest(filter=wanted)
        answer = await self._call(
            "ListContainers", request, cri.ListContainersResponse, _CALL_SECONDS
        )
        return [container for container in answer.containers if container.state == _RUNNING]

    async def _call(self, method: str, request: Message, response: type[M], seconds: float) -> M:
        """One call, of a container that is gone with an empty answer.

        Raises:
            StopError: it failed.
        """
        try:
            return await self._client.call(method, request, response, seconds)
        except CriCallError as error:
            if error.not_found:
                return response()
            raise StopError(str(error), late=error.late) from None
