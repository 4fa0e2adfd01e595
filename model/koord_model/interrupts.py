"""Network cards' interrupts, and the time that CPUs spend on interrupts. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class QueueInterrupt(NamedTuple):
    """An interrupt of a card's queues.

    ``rx_queue`` is the receive queue it serves, ``None`` if it only transmits. ``rate`` is
    interrupts a second, ``None`` until it is known.
    """

    irq: int
    rx_queue: int | None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A network card in koordlet's network namespace.

    ``path`` is its directory in sysfs. ``packets`` are received packets a second, ``None``
    until known.
    """

    name: str
    path: str
    interrupts: tuple[QueueInterrupt, ...] = ()
    rx_queues: tuple[int, ...] = ()
    tx_queues: tuple[int, ...] = ()
    packets: float | None = None


@dataclass(frozen=True, slots=True)
class NodeInterrupts:
    """The node's network cards, and its CPUs' interrupt time.

    ``steady`` is when they were read. By CPU: ``busy`` is the percentage of time in hard and soft
    interrupts, ``squeezed`` how often a second the kernel stopped receiving with packets left,
    ``ksoftirqd`` the process of its soft interrupts (``Process.place``). ``balancer`` names a
    process that moves interrupts by itself, "" without one.
    """

    steady: float
    cards: tuple[NetworkCard, ...] = ()
    busy: Mapping[int, float] = field(default_factory=dict)
    squeezed: Mapping[int, float] = field(default_factory=dict)
    ksoftirqd: Mapping[int, str] = field(default_factory=dict)
    balancer: str = ""
