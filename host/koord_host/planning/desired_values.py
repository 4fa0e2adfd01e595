"""Values that owners want for the node's knobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from koord_host.knobs.forms import Value


class Priority(IntEnum):
    """Precedence where a knob's rule is priority; breaks ties of the other rules."""

    HOOKS = 10  # what plugins want at pod start, and the reconciler restores
    STRATEGY = 20  # what a QoS strategy wants as load moves
    OPERATOR = 30  # what a person at the terminal wants


class Target(NamedTuple):
    """A knob at a place: a cgroup, a process, a sysctl or a file, as its row says."""

    place: str
    knob: str


@dataclass(frozen=True, slots=True)
class Owner:
    """Somebody who wants a value."""

    name: str
    priority: Priority


@dataclass(frozen=True, slots=True)
class DesiredValue:
    """One value for one target; ``pod`` is "namespace/name", "" for none."""

    target: Target
    value: Value
    why: str = ""
    pod: str = ""
