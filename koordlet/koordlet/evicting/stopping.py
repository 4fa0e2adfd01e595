"""Stops a pod's containers at the runtime: where no API can end the pod, or where told to.

That is no eviction: the pod stays, and a kubelet starts the containers of one with
``restartPolicy: Always`` again. So all of its containers are stopped, not only those before the
first that does not run, and what counts is what runs a little later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message
from koord_proto import cri_pb2 as cri
from koord_service.grpc_core import grpc

from koordlet.evicting.ways import End, Outcome
from koordlet.states.inventory import PodRecord

M = TypeVar("M", bound=Message)

_SERVICES = ("runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService")
"""What is asked here is the same in both."""
_POD_UID = "io.kubernetes.pod.uid"
_RUNNING = 1
_CALL_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
"""A kubelet looks each second what has ended, and starts it again at once the first time."""
_AGAIN_SECONDS = 60.0
_UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class StopError(Exception):
    """The runtime did not do it; one line. ``late`` is whether it may do it yet."""

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class ByStop:
    """CRI StopContainer, at ``endpoint`` ("unix:///run/containerd/containerd.sock")."""

    name = "stopping containers"
    pod_stays = True

    def __init__(
        self, endpoint: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._address = f"unix:{quote(endpoint.removeprefix('unix://'))}"
        self._sleep = sleep
        self._channel: grpc.aio.Channel | None = None
        self._services: tuple[str, ...] = _SERVICES

    async def evict(self, record: PodRecord, grace_seconds: float, *, forced: bool) -> Outcome:
        """Stop all containers that run, and see whether they stay so."""
        grace = 0 if forced else int(grace_seconds)
        stopping = False
        try:
            running = await self._running(record.pod.uid)
            if not running:
                return Outcome(End.GONE)
            stopping = True
            await self._stop_all(running, grace)
            await self._sleep(_SETTLE_SECONDS)
            left = await self._running(record.pod.uid)
        except StopError as error:
            end = End.UNKNOWN if error.late else End.FAILED
            return Outcome(end, str(error), disrupted=stopping)
        if not left:
            return Outcome(End.EVICTED)
        again = sum(one.id not in {before.id for before in running} for one in left)
        reason = "started again by the kubelet" if again else "not stopped"
        names = ", ".join(sorted(one.metadata.name for one in left))
        return Outcome(End.FAILED, f"containers {reason}: {names}", _AGAIN_SECONDS, disrupted=True)

    async def close(self) -> None:
        """Let go of the connection."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _stop_all(self, containers: Sequence[cri.Container], grace: int) -> None:
        """All at once; what one of them meets does not keep the others.

        Raises:
            StopError: the first that was not stopped.
        """
        results = await asyncio.gather(
            *(self._stop(one.id, grace) for one in containers), return_exceptions=True
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
        return [one for one in answer.containers if one.state == _RUNNING]

    async def _call(self, method: str, request: Message, response: type[M], seconds: float) -> M:
        """One call, of a container that is gone with an empty answer.

        Raises:
            StopError: it failed.
        """
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=_UNLIMITED)
        for service in self._services:
            call: Any = self._channel.unary_unary(
                f"/{service}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
            )
            try:
                answer = response.FromString(await call(request, timeout=seconds))
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED and service != self._services[-1]:
                    continue
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return response()
                raise _failure(method, error) from None
            except DecodeError:
                raise StopError(f"{method}: the answer cannot be read") from None
            self._services = (service,)
            return answer
        raise AssertionError  # pragma: no cover - the last service returns or raises


def _failure(method: str, error: grpc.aio.AioRpcError) -> StopError:
    words = " ".join((error.details() or "").split())
    late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return StopError(f"{method}: {error.code().name}: {words}", late=late)
