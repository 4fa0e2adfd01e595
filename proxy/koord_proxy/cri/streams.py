"""The streams of a connection: where each stands, and what of it waits here."""

from __future__ import annotations

import enum

from koord_proxy.cri.wire import messages
from koord_proxy.events import Tally, Treatment


class Phase(enum.Enum):
    """Where a stream stands."""

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
    OVER = enum.auto()
    """Answered; what the client still sends on it is dropped."""


HELD = (Phase.COLLECTING, Phase.DECIDING)
"""The request is here."""
OURS = (*HELD, Phase.RELEASED)
"""What the backend gets on the stream is sent by us."""


class Stream:
    """One call on the connection."""

    __slots__ = (
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
            return messages.unpack(bytes(self.response), "")
        except messages.MessageError:
            return None


class Outgoing:
    """Bytes of one stream that wait for the backend's windows."""

    __slots__ = ("data", "end_stream", "position")

    def __init__(self, data: bytearray, *, end_stream: bool) -> None:
        self.data = data
        self.position = 0
        self.end_stream = end_stream

    def __len__(self) -> int:
        return len(self.data) - self.position


PHASES = {
    Treatment.RELAY: Phase.RELAYED,
    Treatment.WATCH: Phase.WATCHED,
    Treatment.HOLD: Phase.COLLECTING,
}
"""Where a stream begins."""
