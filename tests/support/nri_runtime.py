"""A container runtime's side of NRI, for tests: it takes plugins, and asks them.

It behaves as containerd's does, with its own reading and writing of the bytes, so
that a mistake in ours is not made twice: a plugin that does not register within
``registration_timeout`` is disconnected, as is one with a name or index that cannot
be, one that subscribes to events which the runtime does not know, one that does not
answer in time, one that does not understand a split synchronisation, and one whose
pieces would not fit the buffers that the real reader has at that moment. Requests
are made one at a time, and plugins' updates wait for the request under way.
Not played: what the runtime does with adjustments.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from koord_proto import nri_pb2 as pb
from koord_proto import nri_ttrpc_pb2 as ttrpc

PIECE = struct.Struct(">II")
FRAME = struct.Struct(">IIBB")
PLUGIN, RUNTIME = 1, 2
REQUEST, RESPONSE = 1, 2
UNIMPLEMENTED = 12
BUFFER = 4096

# Calls that runtimes before NRI 0.12 do not have; they tell a change of state.
STATES = {
    "RunPodSandbox": pb.RUN_POD_SANDBOX,
    "StopPodSandbox": pb.STOP_POD_SANDBOX,
    "RemovePodSandbox": pb.REMOVE_POD_SANDBOX,
    "PostCreateContainer": pb.POST_CREATE_CONTAINER,
    "StartContainer": pb.START_CONTAINER,
    "PostStartContainer": pb.POST_START_CONTAINER,
    "PostUpdateContainer": pb.POST_UPDATE_CONTAINER,
    "RemoveContainer": pb.REMOVE_CONTAINER,
}
EVENTS = STATES | {
    "CreateContainer": pb.CREATE_CONTAINER,
    "UpdateContainer": pb.UPDATE_CONTAINER,
    "StopContainer": pb.STOP_CONTAINER,
}


class CallFailed(Exception):
    """A plugin answered with an error; a real runtime fails the pod for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Gone(Exception):
    """The plugin's connection was ended; ``str`` is why."""


def pieces(connection: int, frame: bytes) -> bytes:
    """A frame as Go's buffered writer sends it."""
    parts = [frame[:BUFFER], frame[BUFFER:]]
    return b"".join(PIECE.pack(connection, len(part)) + part for part in parts if part)


def request(stream: int, method: str, message: Message, timeout: float = 2.0) -> bytes:
    """A call to a plugin, as bytes."""
    call = ttrpc.Request(
        service="nri.pkg.api.v1alpha1.Plugin",
        method=method,
        payload=message.SerializeToString(),
        timeout_nano=int(timeout * 1e9),
    ).SerializeToString()
    return pieces(PLUGIN, FRAME.pack(len(call), stream, REQUEST, 0) + call)


def response(stream: int, message: Message | None, code: int = 0, text: str = "") -> bytes:
    """The answer to a plugin's call, as bytes."""
    answer = ttrpc.Response(payload=message.SerializeToString() if message else b"")
    if code:
        answer.status.code, answer.status.message = code, text
    data = answer.SerializeToString()
    return pieces(RUNTIME, FRAME.pack(len(data), stream, RESPONSE, 0) + data)


class StrictReader:
    """Reads frames of both connections, and refuses what the real reader chokes on."""

    def __init__(self) -> None:
        self._trunk = b""
        self._parts = {PLUGIN: b"", RUNTIME: b""}

    def feed(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        """Frames that are whole now: connection, stream, type, payload."""
        self._trunk += data
        frames = []
        while len(self._trunk) >= PIECE.size:
            connection, size = PIECE.unpack_from(self._trunk)
            if len(self._trunk) < PIECE.size + size:
                break
            piece = self._trunk[PIECE.size : PIECE.size + size]
            self._trunk = self._trunk[PIECE.size + size :]
            self._check(connection, piece)
            self._parts[connection] += piece
            frames += self._frames(connection)
        return frames

    def _check(self, connection: int, piece: bytes) -> None:
        have = self._parts[connection]
        room = BUFFER
        if len(have) >= FRAME.size:
            room = max(BUFFER, FRAME.size + FRAME.unpack_from(have)[0] - len(have))
        if len(piece) > room:
            raise Gone(f"a piece of {len(piece)} bytes for a buffer of {room}")

    def _frames(self, connection: int) -> list[tuple[int, int, int, bytes]]:
        frames = []
        have = self._parts[connection]
        while len(have) >= FRAME.size:
            size, stream, kind, flags = FRAME.unpack_from(have)
            assert size <= 4 << 20, "a frame that is too large"
            assert flags == 0, "a call that streams"
            if len(have) < FRAME.size + size:
                break
            frames.append((connection, stream, kind, have[FRAME.size : FRAME.size + size]))
            have = have[FRAME.size + size :]
        self._parts[connection] = have
        return frames


class Peer:
    """One connected plugin."""

    def __init__(self, runtime: NriRuntime, writer: asyncio.StreamWriter) -> None:
        self.identity = ""
        self.events = 0
        self.registered: asyncio.Future[pb.RegisterPluginRequest] = asyncio.Future()
        self._runtime = runtime
        self._writer = writer
        self._stream = 1
        self._calls: dict[int, asyncio.Future[ttrpc.Response]] = {}

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Take what the plugin says until it is gone."""
        strict = StrictReader()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for connection, stream, kind, payload in strict.feed(data):
                    if connection == PLUGIN:
                        assert kind == RESPONSE
                        call = self._calls.pop(stream)
                        if not call.done():
                            call.set_result(ttrpc.Response.FromString(payload))
                    else:
                        assert kind == REQUEST
                        await self._serve(stream, ttrpc.Request.FromString(payload))
        raise Gone("closed by the plugin")

    async def call(self, method: str, message: Message, answer: type[Message]) -> Any:
        """Ask the plugin; one that does not answer in time is disconnected."""
        runtime = self._runtime
        stream, self._stream = self._stream, self._stream + 2
        ended = self._calls[stream] = asyncio.Future()
        self._writer.write(request(stream, method, message, runtime.request_timeout))
        try:
            async with asyncio.timeout(runtime.request_timeout):
                got = await ended
        except TimeoutError:
            runtime.drop(self, f"failed to handle {method}: deadline exceeded")
            return None
        if got.status.code:
            raise CallFailed(got.status.code, got.status.message)
        return answer.FromString(got.payload)

    def close(self) -> None:
        self._writer.transport.abort()

    def answer(self, stream: int, message: Message | None, code: int = 0, text: str = "") -> None:
        self._writer.write(response(stream, message, code, text))

    async def _serve(self, stream: int, call: ttrpc.Request) -> None:
        assert call.service == "nri.pkg.api.v1alpha1.Runtime"
        if call.method == "RegisterPlugin":
            await self._register(stream, pb.RegisterPluginRequest.FromString(call.payload))
        elif call.method == "UpdateContainers":
            updates = pb.UpdateContainersRequest.FromString(call.payload)
            self._runtime.tasks.create_task(self._runtime.update(self, stream, updates))
        else:
            self.answer(stream, None, UNIMPLEMENTED, f"method {call.method}")

    async def _register(self, stream: int, plugin: pb.RegisterPluginRequest) -> None:
        problem = ""
        if not re.fullmatch(r"[A-Za-z0-9_.+-]+", plugin.plugin_name):
            problem = f"invalid plugin name: {plugin.plugin_name!r}"
        elif not re.fullmatch(r"[0-9]{2}", plugin.plugin_idx):
            problem = f"invalid plugin index: {plugin.plugin_idx!r}"
        elif self._runtime.refuse_all:
            problem = self._runtime.refuse_all
        self.identity = f"{plugin.plugin_idx}-{plugin.plugin_name}"
        if problem:
            self.answer(stream, None, 2, problem)
            raise Gone(problem)
        if self._runtime.configure_first:
            asyncio.get_running_loop().call_later(0.05, self.answer, stream, pb.Empty())
        else:
            self.answer(stream, pb.Empty())
        self.registered.set_result(plugin)


class NriRuntime:
    """The runtime; ``start`` and ``stop`` may follow each other, as when it is restarted.

    ``plugins`` are those that are synchronised, in their order; ``log`` says what
    became of connections; ``failing`` are ids of containers it cannot update.
    """

    def __init__(self, socket: Path, *, version: str = "2.1.4", nri_version: str = "") -> None:
        self.socket = socket
        self.name = "containerd"
        self.version = version
        self.nri_version = nri_version
        self.request_timeout = 2.0
        self.registration_timeout = 5.0
        self.tells_timeouts = True
        self.known_events = 11
        self.has_all_calls = False
        """Whether it makes a call of its own for what older ones tell as a change of state."""
        self.configure_first = False
        self.mute = False
        """Accepts plugins and never says anything."""
        self.refuse_all = ""
        self.per_message = 0
        """Pods and containers a message of the synchronisation, 0 for all in one."""
        self.pods: list[pb.PodSandbox] = []
        self.containers: list[pb.Container] = []
        self.plugins: list[Peer] = []
        self.connections = 0
        self.log: list[str] = []
        self.updated: list[pb.ContainerUpdate] = []
        self.failing: set[str] = set()
        self.refuse_updates = ""
        self.tasks: asyncio.TaskGroup
        self._request = asyncio.Lock()
        self._peers: set[Peer] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> NriRuntime:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; a socket that is left from before is replaced."""
        self.socket.unlink(missing_ok=True)
        self.tasks = await asyncio.TaskGroup().__aenter__()
        self._server = await asyncio.start_unix_server(self._connected, self.socket)

    async def stop(self) -> None:
        """Go away as when killed: connections break, the socket's file stays."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for peer in list(self._peers):
            peer.close()
        while self._peers:
            await asyncio.sleep(0.001)
        await self.tasks.__aexit__(None, None, None)

    async def ask(self, method: str, message: Message, answer: type[Message]) -> list[Any]:
        """Ask every plugin that subscribed, in their order; return what they answered."""
        event = EVENTS[method]
        async with self._request:
            asked = [peer for peer in self.plugins if peer.events & 1 << (event - 1)]
            return [await self._ask(peer, method, message, answer) for peer in asked]

    async def update(self, peer: Peer, stream: int, request: pb.UpdateContainersRequest) -> None:
        """What a plugin asks for, unasked; it waits for the request under way."""
        async with self._request:
            if self.refuse_updates:
                peer.answer(stream, None, 13, self.refuse_updates)
                return
            failed = [one for one in request.update if one.container_id in self.failing]
            self.updated += [one for one in request.update if one not in failed]
            peer.answer(stream, pb.UpdateContainersResponse(failed=failed))

    def drop(self, peer: Peer, reason: str) -> None:
        self.log.append(f"{peer.identity}: {reason}")
        peer.close()
        if peer in self.plugins:
            self.plugins.remove(peer)

    async def _ask(self, peer: Peer, method: str, message: Message, answer: type[Message]) -> Any:
        if method not in STATES or self.has_all_calls:
            return await peer.call(method, message, answer)
        change = pb.StateChangeEvent(event=STATES[method])
        change.pod.CopyFrom(message.pod)
        if message.DESCRIPTOR.fields_by_name.get("container"):
            change.container.CopyFrom(message.container)
        return await peer.call("StateChange", change, pb.Empty)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        peer = Peer(self, writer)
        self._peers.add(peer)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(peer.read(reader))
                if not self.mute:
                    await self._admit(peer)
        except* Gone as gone:
            self.drop(peer, str(gone.exceptions[0]))
        except* CallFailed as failed:
            self.drop(peer, f"answered with an error: {failed.exceptions[0]}")
        finally:
            self._peers.discard(peer)
            peer.close()

    async def _admit(self, peer: Peer) -> None:
        try:
            async with asyncio.timeout(self.registration_timeout):
                await peer.registered
        except TimeoutError:
            raise Gone("plugin registration timed out") from None
        configuration = pb.ConfigureRequest(
            runtime_name=self.name, runtime_version=self.version, NRI_version=self.nri_version
        )
        if self.tells_timeouts:
            configuration.registration_timeout = int(self.registration_timeout * 1000)
            configuration.request_timeout = int(self.request_timeout * 1000)
        reported = await peer.call("Configure", configuration, pb.ConfigureResponse)
        every = (1 << self.known_events) - 1
        if reported.events & ~every:
            raise Gone(f"invalid plugin events: {reported.events & ~every:#x}")
        peer.events = reported.events or every
        async with self._request:
            await self._synchronize(peer)
        self.plugins = sorted([*self.plugins, peer], key=lambda one: one.identity)
        self.log.append(f"{peer.identity}: synchronized")

    async def _synchronize(self, peer: Peer) -> None:
        for part, more in _parts(self.pods, self.containers, self.per_message):
            part.more = more
            reported = await peer.call("Synchronize", part, pb.SynchronizeResponse)
            if reported is None:
                raise Gone("not synchronized")
            if more and (reported.update or not reported.more):
                raise Gone("does not handle split synchronisation")
        self.updated += reported.update


def _parts(
    pods: list[pb.PodSandbox], containers: list[pb.Container], size: int
) -> Iterable[tuple[pb.SynchronizeRequest, bool]]:
    size = size or max(len(pods), len(containers), 1)
    count = max(1, -(-max(len(pods), len(containers)) // size))
    for number in range(count):
        cut = slice(number * size, (number + 1) * size)
        part = pb.SynchronizeRequest(pods=pods[cut], containers=containers[cut])
        yield part, number < count - 1
