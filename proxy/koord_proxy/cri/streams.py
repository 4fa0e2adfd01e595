"""The streams of a connection: where each stands, what moves it on, and what of it waits here."""

from __future__ import annotations

import enum

from koord_wire import messages

from koord_proxy.contract.events import RewriteAnswer, Tally, Treatment
from koord_proxy.cri import limits


class Phase(enum.IntEnum):
    """Phase of a stream's life."""

    RELAYED = enum.auto()
    """Passes by; only its bytes are counted."""
    WATCHED = enum.auto()
    """Passes by, and is read."""
    COLLECTING = enum.auto()
    """Held, its request still arriving."""
    DECIDING = enum.auto()
    """Held, its request with the shell."""
    RELEASED = enum.auto()
    """Its request goes to the backend; what answers it is read."""
    REFUSED = enum.auto()
    """Reset at the backend, which has yet to confirm it."""
    ANSWERED = enum.auto()
    """The client has its answer; what it still sends is dropped."""
    GONE = enum.auto()
    """Nothing more comes on it; it is forgotten."""


class StreamEvent(enum.IntEnum):
    """Event in a stream's life."""

    REQUEST_READ = enum.auto()
    """The whole request of a held call is here."""
    RELEASE = enum.auto()
    """The shell sends it on."""
    REFUSE = enum.auto()
    """The shell, or a limit, refuses it."""
    RESET_CONFIRMED = enum.auto()
    """The backend will say nothing more on a refused stream."""
    RESPONSE_END = enum.auto()
    """The backend has said all it has to say."""
    CLIENT_END = enum.auto()
    """The client has sent all it has to send."""
    CLIENT_RESET = enum.auto()
    BACKEND_RESET = enum.auto()
    BACKEND_IGNORES = enum.auto()
    """The backend's GOAWAY leaves the stream out."""


_P, _E = Phase, StreamEvent
TRANSITIONS = {
    (_P.COLLECTING, _E.REQUEST_READ): _P.DECIDING,
    (_P.DECIDING, _E.RELEASE): _P.RELEASED,
    (_P.COLLECTING, _E.REFUSE): _P.REFUSED,
    (_P.DECIDING, _E.REFUSE): _P.REFUSED,
    (_P.REFUSED, _E.RESET_CONFIRMED): _P.ANSWERED,
    (_P.RELAYED, _E.RESPONSE_END): _P.GONE,
    (_P.WATCHED, _E.RESPONSE_END): _P.GONE,
    (_P.COLLECTING, _E.RESPONSE_END): _P.ANSWERED,
    (_P.DECIDING, _E.RESPONSE_END): _P.ANSWERED,
    (_P.RELEASED, _E.RESPONSE_END): _P.ANSWERED,
    (_P.REFUSED, _E.RESPONSE_END): _P.ANSWERED,
    (_P.ANSWERED, _E.CLIENT_END): _P.GONE,
    (_P.RELAYED, _E.CLIENT_RESET): _P.GONE,
    (_P.WATCHED, _E.CLIENT_RESET): _P.GONE,
    (_P.COLLECTING, _E.CLIENT_RESET): _P.GONE,
    (_P.DECIDING, _E.CLIENT_RESET): _P.GONE,
    (_P.RELEASED, _E.CLIENT_RESET): _P.GONE,
    (_P.REFUSED, _E.CLIENT_RESET): _P.GONE,
    (_P.ANSWERED, _E.CLIENT_RESET): _P.GONE,
    (_P.RELAYED, _E.BACKEND_RESET): _P.GONE,
    (_P.WATCHED, _E.BACKEND_RESET): _P.GONE,
    (_P.COLLECTING, _E.BACKEND_RESET): _P.GONE,
    (_P.DECIDING, _E.BACKEND_RESET): _P.GONE,
    (_P.RELEASED, _E.BACKEND_RESET): _P.GONE,
    # It crossed our own: the backend's confirmation is still to come.
    (_P.REFUSED, _E.BACKEND_RESET): _P.REFUSED,
    (_P.ANSWERED, _E.BACKEND_RESET): _P.GONE,
    (_P.RELAYED, _E.BACKEND_IGNORES): _P.GONE,
    (_P.WATCHED, _E.BACKEND_IGNORES): _P.GONE,
    (_P.COLLECTING, _E.BACKEND_IGNORES): _P.GONE,
    (_P.DECIDING, _E.BACKEND_IGNORES): _P.GONE,
    (_P.RELEASED, _E.BACKEND_IGNORES): _P.GONE,
    (_P.REFUSED, _E.BACKEND_IGNORES): _P.GONE,
    (_P.ANSWERED, _E.BACKEND_IGNORES): _P.GONE,
}
"""Next phase by phase and event; an event that is not listed changes nothing."""

INITIAL_PHASES = {
    Treatment.RELAY: Phase.RELAYED,
    Treatment.WATCH: Phase.WATCHED,
    Treatment.HOLD: Phase.COLLECTING,
}
"""First phase of a stream, by treatment."""
HELD = (Phase.COLLECTING, Phase.DECIDING)
"""The request is here."""
OURS = (*HELD, Phase.RELEASED)
"""Phases in which the proxy itself sends what the backend gets on the stream."""


class Stream:
    """One call on the connection."""

    __slots__ = (
        "answer_rule",
        "body",
        "client_done",
        "encoding",
        "method",
        "phase",
        "refusal",
        "response",
        "response_started",
        "tally",
        "window",
    )

    def __init__(self, phase: Phase, tally: Tally, method: str = "", encoding: str = "") -> None:
        self.phase = phase
        self.tally = tally
        self.method = method
        self.encoding = encoding
        self.answer_rule: RewriteAnswer | None = None
        if phase is not Phase.RELAYED:
            self.body = bytearray()
            self.response: bytearray | None = bytearray()
            self.client_done = False
            self.response_started = False
            self.refusal: tuple[int, str] = (0, "")
            # What the backend lets us send on the stream.
            self.window = 0

    def answer(self) -> bytes | None:
        """The message of a response that succeeded: gRPC sends none with an error."""
        if not self.response:
            return None
        try:
            return messages.unpack(bytes(self.response), "", limits.MAX_MESSAGE)
        except messages.MessageError:
            return None


class StreamTable(dict[int, Stream]):
    """The streams that are not gone, by number."""

    def move(self, number: int, event: StreamEvent) -> Phase:
        """Have an event happen to a stream that is here; it is forgotten once gone."""
        stream = self[number]
        phase = TRANSITIONS.get((stream.phase, event), stream.phase)
        if phase is Phase.ANSWERED and stream.client_done:
            phase = TRANSITIONS[phase, StreamEvent.CLIENT_END]
        stream.phase = phase
        if phase is Phase.GONE:
            del self[number]
        return phase


class Outgoing:
    """Bytes of one stream that wait for the backend's windows."""

    __slots__ = ("data", "end_stream", "position")

    def __init__(self, data: bytearray, *, end_stream: bool) -> None:
        self.data = data
        self.position = 0
        self.end_stream = end_stream

    def __len__(self) -> int:
        return len(self.data) - self.position
