"""The kubelet's side of CRI: one method a call, blocking or asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message

from koord_demo import cri_client_pb2 as pb

M = TypeVar("M", bound=Message)

TIMEOUT = 120.0
"""Seconds a call may take by default."""

_IMAGE_METHODS = frozenset({"ListImages", "ImageStatus"})
_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # A connection of its own for each client, and no waiting for seconds
    # before it is tried again while the other side restarts.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # In spite of its name: how long a connection may take to come up. A program that systemd
    # starts on a busy machine takes its time before it answers at the socket.
    ("grpc.min_reconnect_backoff_ms", 60_000),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_http_proxy", 0),
)


def method_path(method: str, service: str = "runtime.v1") -> str:
    """The gRPC path of a CRI method; ``service`` is ``runtime.v1`` or ``runtime.v1alpha2``."""
    kind = "ImageService" if method in _IMAGE_METHODS else "RuntimeService"
    return f"/{service}.{kind}/{method}"


def target(address: object) -> str:
    """The gRPC name of a unix socket given by its path."""
    text = str(address)
    return text if "://" in text or text.startswith("unix:") else f"unix:{text}"


class Cri:
    """A blocking client; each method takes ``timeout=`` (seconds), raises ``grpc.RpcError``."""

    def __init__(self, address: object, service: str = "runtime.v1") -> None:
        self.address = address
        self.service = service
        self._channel = grpc.insecure_channel(target(address), options=_OPTIONS)
        self._stubs: dict[str, Callable[..., Any]] = {}

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Cri:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(
        self, method: str, request: Message, response_type: type[M], timeout: float | None = TIMEOUT
    ) -> M:
        """Make any unary call."""
        stub = self._stubs.get(method)
        if stub is None:
            stub = self._stubs[method] = self._channel.unary_unary(
                method_path(method, self.service),
                request_serializer=_serialize,
                response_deserializer=response_type.FromString,
            )
        return cast("M", stub(request, timeout=timeout))

    def wait_until_ready(self, *, timeout: float = TIMEOUT) -> None:
        """Wait until the runtime answers; needed after its restart, as calls then fail at once."""
        stub = self._channel.unary_unary(
            method_path("Version", self.service),
            request_serializer=_serialize,
            response_deserializer=pb.VersionResponse.FromString,
        )
        stub(pb.VersionRequest(), timeout=timeout, wait_for_ready=True)

    # The runtime.

    def version(self, *, timeout: float = TIMEOUT) -> pb.VersionResponse:
        return self.call("Version", pb.VersionRequest(), pb.VersionResponse, timeout)

    def status(self, *, verbose: bool = False, timeout: float = TIMEOUT) -> pb.StatusResponse:
        return self.call("Status", pb.StatusRequest(verbose=verbose), pb.StatusResponse, timeout)

    # Pods.

    def run_pod_sandbox(
        self, config: pb.PodSandboxConfig, *, runtime_handler: str = "", timeout: float = TIMEOUT
    ) -> str:
        """Start a pod's sandbox and return its id."""
        request = pb.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        return self.call("RunPodSandbox", request, pb.RunPodSandboxResponse, timeout).pod_sandbox_id

    def stop_pod_sandbox(self, sandbox_id: str, *, timeout: float = TIMEOUT) -> None:
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        self.call("StopPodSandbox", request, pb.StopPodSandboxResponse, timeout)

    def remove_pod_sandbox(self, sandbox_id: str, *, timeout: float = TIMEOUT) -> None:
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        self.call("RemovePodSandbox", request, pb.RemovePodSandboxResponse, timeout)

    def pod_sandbox_status(
        self, sandbox_id: str, *, verbose: bool = False, timeout: float = TIMEOUT
    ) -> pb.PodSandboxStatusResponse:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        return self.call("PodSandboxStatus", request, pb.PodSandboxStatusResponse, timeout)

    def list_pod_sandbox(
        self, *, sandbox_id: str = "", timeout: float = TIMEOUT
    ) -> Sequence[pb.PodSandbox]:
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(id=sandbox_id))
        return self.call("ListPodSandbox", request, pb.ListPodSandboxResponse, timeout).items

    # Containers.

    def create_container(
        self,
        sandbox_id: str,
        config: pb.ContainerConfig,
        sandbox_config: pb.PodSandboxConfig,
        *,
        timeout: float = TIMEOUT,
    ) -> str:
        """Create a container in a sandbox and return its id."""
        request = pb.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        response = self.call("CreateContainer", request, pb.CreateContainerResponse, timeout)
        return response.container_id

    def start_container(self, container_id: str, *, timeout: float = TIMEOUT) -> None:
        request = pb.StartContainerRequest(container_id=container_id)
        self.call("StartContainer", request, pb.StartContainerResponse, timeout)

    def stop_container(
        self, container_id: str, *, grace: int = 0, timeout: float = TIMEOUT
    ) -> None:
        """Stop a container, killing it after ``grace`` seconds (0: at once)."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace)
        self.call("StopContainer", request, pb.StopContainerResponse, timeout)

    def remove_container(self, container_id: str, *, timeout: float = TIMEOUT) -> None:
        request = pb.RemoveContainerRequest(container_id=container_id)
        self.call("RemoveContainer", request, pb.RemoveContainerResponse, timeout)

    def list_containers(
        self, *, sandbox_id: str = "", timeout: float = TIMEOUT
    ) -> Sequence[pb.Container]:
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(pod_sandbox_id=sandbox_id))
        return self.call("ListContainers", request, pb.ListContainersResponse, timeout).containers

    def container_status(
        self, container_id: str, *, verbose: bool = False, timeout: float = TIMEOUT
    ) -> pb.ContainerStatusResponse:
        request = pb.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        return self.call("ContainerStatus", request, pb.ContainerStatusResponse, timeout)

    def update_container_resources(
        self,
        container_id: str,
        linux: pb.LinuxContainerResources,
        *,
        annotations: dict[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        request = pb.UpdateContainerResourcesRequest(
            container_id=container_id, linux=linux, annotations=annotations or {}
        )
        self.call("UpdateContainerResources", request, pb.UpdateContainerResourcesResponse, timeout)

    def exec_sync(
        self, container_id: str, *command: str, limit: int = 0, timeout: float = TIMEOUT
    ) -> pb.ExecSyncResponse:
        """Run a command in a container, for at most ``limit`` seconds (0: no limit)."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=limit)
        return self.call("ExecSync", request, pb.ExecSyncResponse, timeout)

    def exec(
        self,
        container_id: str,
        *command: str,
        tty: bool = False,
        stdin: bool = False,
        timeout: float = TIMEOUT,
    ) -> str:
        """The URL at which a command's streams can be had."""
        request = pb.ExecRequest(
            container_id=container_id,
            cmd=command,
            tty=tty,
            stdin=stdin,
            stdout=True,
            stderr=not tty,
        )
        return self.call("Exec", request, pb.ExecResponse, timeout).url

    def attach(
        self,
        container_id: str,
        *,
        tty: bool = False,
        stdin: bool = False,
        timeout: float = TIMEOUT,
    ) -> str:
        """The URL at which a container's own streams can be had."""
        request = pb.AttachRequest(
            container_id=container_id, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        return self.call("Attach", request, pb.AttachResponse, timeout).url

    @contextlib.contextmanager
    def container_events(
        self, *, timeout: float = TIMEOUT
    ) -> Iterator[Iterator[pb.ContainerEventResponse]]:
        """The events from now on; leaving the block cancels the stream."""
        stub = self._channel.unary_stream(
            method_path("GetContainerEvents", self.service),
            request_serializer=_serialize,
            response_deserializer=pb.ContainerEventResponse.FromString,
        )
        stream = stub(pb.GetEventsRequest(), timeout=timeout)
        try:
            yield stream
        finally:
            stream.cancel()

    # Images.

    def list_images(self, *, timeout: float = TIMEOUT) -> Sequence[pb.Image]:
        return self.call(
            "ListImages", pb.ListImagesRequest(), pb.ListImagesResponse, timeout
        ).images

    def image_status(self, image: str, *, timeout: float = TIMEOUT) -> pb.Image | None:
        """Return the runtime's record of an image; None if it does not have it."""
        request = pb.ImageStatusRequest(image=pb.ImageSpec(image=image))
        response = self.call("ImageStatus", request, pb.ImageStatusResponse, timeout)
        return response.image if response.HasField("image") else None


class AsyncCri:
    """The same connection for asyncio, with the generic call only."""

    def __init__(self, address: object, service: str = "runtime.v1") -> None:
        self.service = service
        self._channel = grpc.aio.insecure_channel(target(address), options=_OPTIONS)
        self._stubs: dict[str, Callable[..., Any]] = {}

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> AsyncCri:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def call(
        self,
        method: str,
        request: Message,
        response_type: type[M],
        timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - gRPC's own deadline, sent along
    ) -> M:
        """Make any unary call."""
        stub = self._stubs.get(method)
        if stub is None:
            stub = self._stubs[method] = self._channel.unary_unary(
                method_path(method, self.service),
                request_serializer=_serialize,
                response_deserializer=response_type.FromString,
            )
        return cast("M", await stub(request, timeout=timeout))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
