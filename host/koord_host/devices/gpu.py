"""GPUs of NVIDIA as their driver reports them, and what of that means that one is not healthy.

A GPU is not healthy, where Koordinator's never recovers,

- while its driver does not answer, asks for a reset, or no longer lists it;
- after an error event (XID) that is not the application's own (13, 31, 43, 45, 68, 109):
  for 5 minutes, which each event restarts;
- after an event that ends only with a reset, until one was seen: it did not answer, or
  its driver asked for a reset, and does so no longer. A driver that reports whether it
  needs a reset (R570 and later), and needs none, has the last word: 5 minutes then, too;
- when a row of its memory failed and could not be remapped.

An agent that restarts does not know earlier events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

QUIET_SECONDS = 300.0
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Errors of a program, not of the GPU: docs.nvidia.com/deploy/xid-errors."""
RESET_XIDS = frozenset({46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 140, 143})
"""Those whose remedy is a reset or more, by the same catalogue."""


class DriverUnavailableError(Exception):
    """There is no driver or no library to ask, or it is gone; the message is one line."""


@dataclass(frozen=True, slots=True)
class GPUProcess:
    """One process's usage of a GPU: bytes, and percent of its cores."""

    pid: int
    memory: int = 0
    core: float = 0.0


@dataclass(frozen=True, slots=True)
class GPUReading:
    """One GPU as its driver reports it now; what it does not report is ``None``.

    Memory is in bytes, ``core`` in percent. ``xids`` are the driver's error events since
    the last reading, ``reset_needed`` is whether the driver asks for a reset, ``error``
    why the GPU does not answer ("" while it does), ``missing`` lines about what is not
    reported.
    """

    minor: int
    uuid: str
    bus: str = ""
    model: str = ""
    memory: int = 0
    memory_used: int | None = None
    core: float | None = None
    processes: tuple[GPUProcess, ...] = ()
    xids: tuple[int, ...] = ()
    reset_needed: bool | None = None
    error: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GPUInstance:
    """A part of a GPU that MIG made: its UUID, its profile ("1g.10gb"), its memory in bytes."""

    uuid: str
    profile: str
    memory: int


@dataclass(frozen=True, slots=True)
class GPUDetails:
    """Details of a GPU that only an inventory needs; what the driver does not report is empty.

    ``linked`` are the UUIDs of those that NVLink connects it with, ``uncorrected`` the errors of
    its memory that ECC could not correct since the driver was loaded, ``row_failure`` whether a
    failed row could not be remapped.
    """

    uuid: str
    linked: tuple[str, ...] = ()
    instances: tuple[GPUInstance, ...] = ()
    uncorrected: int | None = None
    row_failure: bool = False


class GPUCounters(Protocol):
    """The driver of the node's GPUs."""

    @property
    def driver(self) -> str:
        """The driver's version; "" before the first reading."""
        ...

    def read(self, at: float) -> list[GPUReading]:
        """All GPUs now; ``at`` is the wall clock, seconds since the epoch.

        Raises:
            DriverUnavailableError: there is no library or no driver.
        """
        ...


class GPUInventory(GPUCounters, Protocol):
    """The driver of the node's GPUs, with what an inventory needs."""

    def details(self) -> dict[str, GPUDetails]:
        """Return the driver's details of each GPU that answered the last reading, by UUID."""
        ...


@dataclass(slots=True)
class GPUHealth:
    """State from which one GPU's health is judged."""

    xid: int = 0
    at: float = 0.0
    reset_due: bool = False
    """True if a reset is due: the driver asked for one, or did not answer."""

    def judge(self, reading: GPUReading, steady: float) -> tuple[str, str]:
        """Return the reason for poor health in a word and in a line; both "" if healthy."""
        ailing = bool(reading.error or reading.reset_needed)
        if self.reset_due and not ailing:
            self.xid = 0  # a reset was seen; what is reported now came after it
        self.reset_due = ailing
        for xid in reading.xids:
            if xid not in APPLICATION_XIDS:
                self.at = steady
                if self.xid not in RESET_XIDS or xid in RESET_XIDS:
                    self.xid = xid
        if ailing:
            reason = self._reason("ResetRequired" if reading.reset_needed else "NotAnswering")
            return reason, reading.error or "the driver asks for a reset"
        fatal = self.xid in RESET_XIDS and reading.reset_needed is None
        if self.xid and (fatal or steady - self.at < QUIET_SECONDS):
            cure = "until it is reset" if fatal else f"until {QUIET_SECONDS:g} s without one passed"
            return self._reason(""), f"the driver reported XID {self.xid}: not healthy {cure}"
        self.xid = 0
        return "", ""

    def _reason(self, otherwise: str) -> str:
        return f"Xid{self.xid}" if self.xid else otherwise
