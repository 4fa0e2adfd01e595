"""How a node's outgoing network traffic is divided: classes and who is in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrafficMember:
    """A pod in a class, by its address and its cgroup, whichever the host can match."""

    pod: str
    ip: str
    cgroup: str


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class: ``rate`` is promised, ``ceil`` is the most; bits a second.

    ``minor`` is its number under the root class (1:``minor``); lower ``priority``
    goes first. ``default`` takes what is in no other class.
    """

    name: str
    minor: int
    priority: int
    rate: int
    ceil: int
    parent: int = 1
    default: bool = False
    members: tuple[TrafficMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """The classes of the interface with the default route, of ``total`` bits a second."""

    total: int
    classes: tuple[TrafficClass, ...]
