"""A plugin's side of one NRI connection: bytes in, events out; answers in, bytes out. No IO.

The order of things: the plugin registers; the runtime configures it (perhaps
before it answers the registration), synchronises it, and asks from then on.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable

from google.protobuf.message import DecodeError, Message
from koord_proto import nri_pb2 as pb

from koordlet.runtime_hooks.nri.protocol import mux, ttrpc
from koordlet.runtime_hooks.nri.protocol.events import (
    ConfigureRequest,
    Event,
    IncomingCall,
    RegistrationRejection,
    RegistrationResponse,
    RuntimeInfo,
    ShutdownRequest,
    UpdateResponse,
)
from koordlet.runtime_hooks.nri.protocol.methods import BY_EVENT, BY_NAME, NriMethod, subscription

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
NRI_VERSION = "v0.12.0"
"""The newest NRI whose calls are all known here."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")
_EMPTY = pb.Empty()


class NriPluginState(enum.Enum):
    """State of a connection."""

    NEW = enum.auto()
    REGISTERING = enum.auto()
    CONFIGURED = enum.auto()
    SYNCHRONIZED = enum.auto()
    """Synchronisation was answered: the runtime asks, and may be asked."""
    OVER = enum.auto()
    """Rejected, or shut down."""


class NriPlugin:
    """One connection. ``out`` are the bytes to be sent, for the shell to take away.

    Raises:
        ValueError: no runtime would register this name or index.
    """

    def __init__(self, name: str, index: str, events: Iterable[int]) -> None:
        """``events`` are numbers of events to subscribe to; ``index`` is the place in the order."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"plugin name {name!r}: expected letters, digits and _.+-")
        if not _INDEX.fullmatch(index):
            raise ValueError(f'plugin index {index!r}: expected two digits, such as "10"')
        self.state = NriPluginState.NEW
        self.out: list[bytes] = []
        self.failed: ttrpc.TtrpcError | None = None
        """The runtime does not speak NRI: the connection is of no more use."""
        self._name = name
        self._index = index
        self._events = frozenset(events)
        self._pieces = mux.MuxReader()
        self._server = ttrpc.TtrpcServer()
        self._client = ttrpc.TtrpcClient()
        self._registration: int | None = None
        self._updates: set[int] = set()
        self._waiting: dict[int, type[Message]] = {}
        """Calls that were returned as ``IncomingCall``, and the types of their answers."""
        self._collected = pb.SynchronizeRequest()
        self._specials: dict[str, Callable[[ttrpc.TtrpcRequest], Event | None]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "StateChange": self._state_change,
            "ValidateContainerAdjustment": self._validate,
            "Shutdown": self._shut_down,
        }

    def register(self) -> None:
        """Say who we are; the first thing on a connection."""
        self.state = NriPluginState.REGISTERING
        request = pb.RegisterPluginRequest(
            plugin_name=self._name, plugin_idx=self._index, NRI_version=NRI_VERSION
        )
        self._registration = self._call("RegisterPlugin", request)
        self._flush()

    def receive(self, data: bytes) -> list[Event]:
        """Parse received bytes into events, up to where ``failed`` was set."""
        events: list[Event | None] = []
        try:
            for connection, piece in self._pieces.receive(data):
                self._take(connection, piece, events)
        except ttrpc.TtrpcError as error:
            self.failed = error
        self._flush()
        return [event for event in events if event is not None]

    def _take(self, connection: int, piece: bytes, events: list[Event | None]) -> None:
        """Add what a piece says; other connections than these are for versions to come."""
        # The second time for what is wrong behind whole frames.
        for part in (piece, b""):
            if connection == mux.PLUGIN:
                events += map(self._request, self._server.receive(part))
            elif connection == mux.RUNTIME:
                events += map(self._response, self._client.receive(part))

    def answer(self, call: int, response: Message | None) -> None:
        """Answer a call; None is no change.

        Raises:
            TypeError: the answer is another call's; this one still waits.
            ValueError: the answer is too large for a message, and the call still
                waits; or nobody waits for one.
        """
        wanted = self._waiting.get(call)
        if wanted is None:
            raise ValueError(f"call {call} waits for no answer")
        if response is None:
            response = wanted()
        if not isinstance(response, wanted):
            raise TypeError(f"a {type(response).__name__} where {wanted.__name__} is due")
        self._server.respond(call, response.SerializeToString())
        del self._waiting[call]
        if wanted is pb.SynchronizeResponse:
            self.state = NriPluginState.SYNCHRONIZED
        self._flush()

    def refuse(self, call: int, reason: str) -> None:
        """Answer a call with an error: the runtime fails what it asked about.

        Raises:
            ValueError: nobody waits for an answer.
        """
        self._server.refuse(call, ttrpc.FAILED_PRECONDITION, reason)
        self._waiting.pop(call, None)
        self._flush()

    def update_containers(
        self, updates: Iterable[pb.ContainerUpdate], timeout: float | None = None
    ) -> int:
        """Request unsolicited changes of containers; ``UpdateResponse`` has the result.

        Raises:
            ValueError: too much for one message.
        """
        request = pb.UpdateContainersRequest(update=updates)
        call = self._call("UpdateContainers", request, timeout)
        self._updates.add(call)
        self._flush()
        return call

    def _call(self, method: str, request: Message, timeout: float | None = None) -> int:
        payload = request.SerializeToString()
        return self._client.call(RUNTIME_SERVICE, method, payload, timeout)

    def _flush(self) -> None:
        self.out += (mux.pack(mux.RUNTIME, frame) for frame in self._client.out)
        self.out += (mux.pack(mux.PLUGIN, frame) for frame in self._server.out)
        self._client.out.clear()
        self._server.out.clear()

    # What comes in.

    def _response(self, response: ttrpc.TtrpcResponse) -> Event:
        if response.stream == self._registration:
            return self._registered(response)
        self._updates.discard(response.stream)
        if response.code != ttrpc.OK:
            return UpdateResponse(response.stream, error=_message(response))
        try:
            answer = pb.UpdateContainersResponse.FromString(response.payload)
        except DecodeError:
            return UpdateResponse(response.stream, error="the answer cannot be read")
        return UpdateResponse(response.stream, tuple(answer.failed))

    def _registered(
        self, response: ttrpc.TtrpcResponse
    ) -> RegistrationResponse | RegistrationRejection:
        if response.code == ttrpc.OK:
            return RegistrationResponse()
        self.state = NriPluginState.OVER
        return RegistrationRejection(_message(response))

    def _request(self, call: ttrpc.TtrpcRequest) -> Event | None:
        if call.service == PLUGIN_SERVICE:
            try:
                if call.method in self._specials:
                    return self._specials[call.method](call)
                if call.method in BY_NAME:
                    method = BY_NAME[call.method]
                    return self._ask(call, method, method.request.FromString(call.payload))
            except DecodeError:
                self._server.refuse(call.stream, ttrpc.INVALID_ARGUMENT, "it cannot be read")
                return None
        # The runtime then falls back to the protocol of older plugins.
        what = f"{call.service}/{call.method} is not served here"
        self._server.refuse(call.stream, ttrpc.UNIMPLEMENTED, what)
        return None

    def _ask(self, call: ttrpc.TtrpcRequest, method: NriMethod, request: Message) -> IncomingCall:
        self._waiting[call.stream] = method.response
        return IncomingCall(call.stream, method, request, call.timeout)

    def _respond(self, call: ttrpc.TtrpcRequest, response: Message) -> None:
        self._server.respond(call.stream, response.SerializeToString())

    def _configure(self, call: ttrpc.TtrpcRequest) -> ConfigureRequest:
        request = pb.ConfigureRequest.FromString(call.payload)
        mask = subscription(self._events, request)
        self._respond(call, pb.ConfigureResponse(events=mask))
        self.state = NriPluginState.CONFIGURED
        return ConfigureRequest(
            RuntimeInfo(
                name=request.runtime_name,
                version=request.runtime_version,
                config=request.config,
                nri_version=request.NRI_version,
                registration_timeout=request.registration_timeout / 1000 or None,
                request_timeout=request.request_timeout / 1000 or None,
            )
        )

    def _synchronize(self, call: ttrpc.TtrpcRequest) -> IncomingCall | None:
        # Parts simply follow one another: their lists grow.
        self._collected.MergeFromString(call.payload)
        if self._collected.more:
            self._collected.more = False
            self._respond(call, pb.SynchronizeResponse(more=True))
            return None
        request, self._collected = self._collected, pb.SynchronizeRequest()
        return self._ask(call, BY_NAME["Synchronize"], request)

    def _state_change(self, call: ttrpc.TtrpcRequest) -> IncomingCall | None:
        """Convert an older runtime's event into a call; all of these are answered with nothing."""
        change = pb.StateChangeEvent.FromString(call.payload)
        method = BY_EVENT.get(change.event)
        if method is None:
            self._respond(call, _EMPTY)
            return None
        request = method.request()
        for part in ("pod", "container"):
            if change.HasField(part) and part in method.request.DESCRIPTOR.fields_by_name:
                getattr(request, part).CopyFrom(getattr(change, part))
        return self._ask(call, method, request)

    def _validate(self, call: ttrpc.TtrpcRequest) -> None:
        """Not subscribed to; a runtime that asks all the same is not kept from anything."""
        self._respond(call, pb.ValidateContainerAdjustmentResponse())

    def _shut_down(self, call: ttrpc.TtrpcRequest) -> ShutdownRequest:
        self._respond(call, _EMPTY)
        self.state = NriPluginState.OVER
        return ShutdownRequest()


def _message(response: ttrpc.TtrpcResponse) -> str:
    return response.message or f"code {response.code}"
