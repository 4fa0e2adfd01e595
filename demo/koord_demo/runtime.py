"""An embedded CRI runtime: a test double of containerd, without root.

It keeps pods and containers, starts no process, and renders each group's
cgroup files below a directory, in v1's names and values, as runc would:
``<root>/<cgroup parent>/<id>/cpu.shares`` and so on. These rules are enforced:

- an unknown sandbox or container is NOT_FOUND; to stop or remove one is no error;
- a sandbox's and a container's name (with namespace, uid, attempt) is taken once;
- a container is started once, and only in a running sandbox; files are there
  from the start to the stop, and an update before the start counts at the start;
- stopping a sandbox stops its containers, removing it removes them;
- fields at their protobuf default change nothing, in creation and update alike;
- what the kernel or runc would refuse (shares outside 2…262144, a quota below
  1000 µs, a period outside 1000…1000000 µs, CPUs the machine has not) is
  INVALID_ARGUMENT and changes nothing; containerd says UNKNOWN with the same words;
- ``config`` of a verbose status stays as created, ``runtimeSpec`` follows updates.

Run it as ``python -m koord_demo.runtime --socket PATH --root DIRECTORY``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import Message

from koord_demo import cri_client_pb2 as pb
from koord_demo.cgroup_tree import CgroupTree
from koord_demo.pod_rules import CallRefusedError, PodRules

Answer = Callable[[bytes], Message]
Events = asyncio.Queue[pb.ContainerEventResponse]

_PATH = re.compile(r"/(runtime\.v1|runtime\.v1alpha2)\.RuntimeService/(\w+)")
_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
)


class ReceivedCall(NamedTuple):
    """A call as it arrived."""

    service: str
    """``runtime.v1`` or ``runtime.v1alpha2``."""
    method: str
    data: bytes
    """The message, not yet parsed."""
    metadata: tuple[tuple[str, str | bytes], ...] = ()


class DemoRuntime:
    """The runtime's state and its answers, by method."""

    def __init__(self, root: Path, *, cpus: str = "0-7", keep_requests: bool = True) -> None:
        """Render files below ``root``, for a machine said to have ``cpus``."""
        self.cgroups = CgroupTree(root, cpus)
        self.pods = PodRules(self.cgroups)
        self.requests: list[ReceivedCall] = []
        """Received calls in order, unless ``keep_requests`` is off."""
        self._keep = keep_requests
        pods = self.pods
        self._answers: dict[str, Answer] = {
            "Version": _answer(pb.VersionRequest, _version),
            "Status": _answer(pb.StatusRequest, _status),
            "RunPodSandbox": _answer(pb.RunPodSandboxRequest, pods.run_pod_sandbox),
            "StopPodSandbox": _answer(pb.StopPodSandboxRequest, pods.stop_pod_sandbox),
            "RemovePodSandbox": _answer(pb.RemovePodSandboxRequest, pods.remove_pod_sandbox),
            "PodSandboxStatus": _answer(pb.PodSandboxStatusRequest, pods.pod_sandbox_status),
            "ListPodSandbox": _answer(pb.ListPodSandboxRequest, pods.list_pod_sandbox),
            "CreateContainer": _answer(pb.CreateContainerRequest, pods.create_container),
            "StartContainer": _answer(pb.StartContainerRequest, pods.start_container),
            "StopContainer": _answer(pb.StopContainerRequest, pods.stop_container),
            "RemoveContainer": _answer(pb.RemoveContainerRequest, pods.remove_container),
            "ContainerStatus": _answer(pb.ContainerStatusRequest, pods.container_status),
            "ListContainers": _answer(pb.ListContainersRequest, pods.list_containers),
            "UpdateContainerResources": _answer(
                pb.UpdateContainerResourcesRequest, pods.update_container_resources
            ),
        }

    def knows(self, method: str) -> bool:
        return method in self._answers

    def note(self, request: ReceivedCall) -> None:
        if self._keep:
            self.requests.append(request)

    def answer(self, method: str, data: bytes) -> Message:
        """The response to a unary call.

        Raises:
            CallRefusedError: the call ends with an error.
        """
        return self._answers[method](data)

    @contextlib.contextmanager
    def events(self) -> Iterator[Events]:
        """Queue of the containers' events while the block runs."""
        queue: Events = asyncio.Queue()
        self.pods.listeners.add(queue.put_nowait)
        try:
            yield queue
        finally:
            self.pods.listeners.discard(queue.put_nowait)


@contextlib.asynccontextmanager
async def serve(runtime: DemoRuntime, socket: Path) -> AsyncIterator[None]:
    """Answer CRI, v1 and v1alpha2, on a unix socket while the block runs."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((_MethodHandlers(runtime),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        # Event streams have no end of their own.
        await server.stop(grace=0.0)


class _MethodHandlers(grpc.GenericRpcHandler):
    """Finds the handler of a method path; without one gRPC answers UNIMPLEMENTED."""

    def __init__(self, runtime: DemoRuntime) -> None:
        self._runtime = runtime

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        found = _PATH.fullmatch(handler_call_details.method)
        if found is None:
            return None
        service, method = found.groups()
        if method == "GetContainerEvents":
            return grpc.unary_stream_rpc_method_handler(self._stream(service))
        if self._runtime.knows(method):
            return grpc.unary_unary_rpc_method_handler(self._unary(service, method))
        return None

    def _unary(
        self, service: str, method: str
    ) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]:
        async def call(data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            self._note(service, method, data, context)
            try:
                response = self._runtime.answer(method, data)
            except CallRefusedError as error:
                await context.abort(error.code, error.message)
            if isinstance(response, pb.VersionResponse):
                response.runtime_api_version = service.removeprefix("runtime.")
            return response.SerializeToString()

        return call

    def _stream(
        self, service: str
    ) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], AsyncIterator[bytes]]:
        async def call(
            data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
        ) -> AsyncIterator[bytes]:
            self._note(service, "GetContainerEvents", data, context)
            with self._runtime.events() as events:
                # Lets the client know that it misses nothing from here on.
                await context.send_initial_metadata(())
                while True:
                    yield (await events.get()).SerializeToString()

        return call

    def _note(
        self,
        service: str,
        method: str,
        data: bytes,
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> None:
        metadata = tuple((key, value) for key, value in context.invocation_metadata() or ())
        self._runtime.note(ReceivedCall(service, method, data, metadata))


def _answer(request_type: Any, method: Callable[[Any], Message]) -> Answer:
    return lambda data: method(request_type.FromString(data))


def _version(_: pb.VersionRequest) -> pb.VersionResponse:
    return pb.VersionResponse(
        version="0.1.0", runtime_name="embedded", runtime_version="1", runtime_api_version="v1"
    )


def _status(_: pb.StatusRequest) -> pb.StatusResponse:
    ready = ("RuntimeReady", "NetworkReady")
    conditions = [pb.RuntimeCondition(type=name, status=True) for name in ready]
    return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))


async def run(socket: Path, root: Path, cpus: str) -> None:
    """Serve until SIGTERM or SIGINT."""
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    async with serve(DemoRuntime(root, cpus=cpus, keep_requests=False), socket):
        print(f"embedded runtime: CRI on {socket}, cgroup files in {root}", file=sys.stderr)
        await done.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m koord_demo.runtime",
        description="An embedded CRI runtime that starts no process: pods and cgroup files only.",
    )
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to serve CRI on")
    parser.add_argument("--root", type=Path, required=True, help="directory for the cgroup files")
    parser.add_argument("--cpus", default="0-7", help="CPUs the machine is said to have")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.socket, arguments.root, arguments.cpus))


if __name__ == "__main__":
    main()
