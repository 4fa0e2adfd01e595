"""The vocabulary between a session and the shell around it.

The shell gives a session bytes and decisions; what a session wants of the
shell, besides bytes to be sent, is said with the requests below.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of a request that is read: the kubelet's and containerd's own limit of a message."""


class Treatment(enum.Enum):
    """Treatment of the calls of one method."""

    RELAY = enum.auto()
    """Passed on unread."""
    WATCH = enum.auto()
    """Passed on at once; request and response are read."""
    HOLD = enum.auto()
    """The request waits here until the shell decides."""


class Tally:
    """Calls and bytes of one method, for the metrics."""

    __slots__ = ("calls", "from_backend", "from_client")

    def __init__(self) -> None:
        self.calls = 0
        self.from_client = 0
        self.from_backend = 0


RewriteAnswer = Callable[[bytes], bytes | None]
"""An answer's message to the one that the client gets in its place; ``None``: as it is."""


class Route(NamedTuple):
    """Treatment of one call, decided when its path is known.

    ``answer`` is asked about the answer to a call that is relayed.
    """

    treatment: Treatment
    tally: Tally
    method: str = ""
    answer: RewriteAnswer | None = None


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A whole request was read.

    If ``held``, the session waits for ``release`` or ``refuse``. ``message`` is
    ``None`` where the request could not be read; ``problem`` says why. ``target``
    is what the call was routed by, where the method does not say all.
    """

    stream: int
    method: str
    message: bytes | None
    held: bool
    problem: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call that was released or watched came to its end.

    ``response`` is the message of a call that succeeded, else ``None``.
    """

    stream: int
    response: bytes | None


@dataclass(frozen=True, slots=True)
class CallAbandoned:
    """A held call is over before it was decided: nobody waits for a decision."""

    stream: int


SessionEvent = RequestArrived | CallEnded | CallAbandoned


class RelaySession(Protocol):
    """One client connection and its backend connection, as a machine without IO.

    After each call, send what is in ``to_client`` and ``to_backend`` and act on
    ``requests``, these first, emptying all three; then half-close the sides that
    ``eof_to_client`` and ``eof_to_backend`` say.
    """

    to_client: list[bytes]
    to_backend: list[bytes]
    requests: list[SessionEvent]

    @property
    def failed(self) -> Exception | None:
        """The reason to close both sides once everything is sent."""

    @property
    def stalled(self) -> bool:
        """Bytes of the client wait here: stop reading from it."""

    @property
    def drained(self) -> bool:
        """The client knows that it has to leave, and its calls are over."""

    @property
    def eof_to_client(self) -> bool:
        """Nothing more will be sent to the client, while it may go on."""

    @property
    def eof_to_backend(self) -> bool:
        """Nothing more will be sent to the backend, while it may go on."""

    def receive_from_client(self, data: bytes) -> None:
        """Bytes came from the client."""

    def receive_from_backend(self, data: bytes) -> None:
        """Bytes came from the backend."""

    def client_eof(self) -> bool:
        """The client sends no more; whether the connection goes on."""

    def backend_eof(self) -> bool:
        """The backend sends no more; whether the connection goes on."""

    def release(self, stream: int, /, message: bytes | None = None) -> None:
        """Send a held request on: as it came, or this message in its place."""

    def refuse(self, stream: int, /, message: str) -> None:
        """Answer a held request with an error."""

    def drain(self) -> None:
        """Ask the client to make its next calls elsewhere."""

    def cut_off(self) -> None:
        """The client had its time to do so."""

    def abandon(self) -> None:
        """One side is gone: every call on the connection is over."""
