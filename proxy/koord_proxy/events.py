"""The vocabulary between a session and the shell around it.

The shell gives a session bytes and decisions; what a session wants of the
shell, besides bytes to be sent, is said with the requests below.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Treatment(enum.Enum):
    """What is done with the calls of one method."""

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


class Route(NamedTuple):
    """How a call is treated, decided when its path is known."""

    treatment: Treatment
    tally: Tally
    method: str = ""


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A whole request was read.

    If ``held``, the session waits for ``release`` or ``refuse``. ``message`` is
    ``None`` where the request could not be read; ``problem`` says why.
    """

    stream: int
    method: str
    message: bytes | None
    held: bool
    problem: str = ""


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


Request = RequestArrived | CallEnded | CallAbandoned
