"""Reach of an entry for nodes: who, how many of them first, until when. No IO.

Fields of an entry of ``pykoord-config`` beside its selector::

    {"name": "offload", "nodeSelector": …, "canary": "10%", "priority": 1,
     "until": "2026-12-01T00:00:00Z", "strategies": …}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from hashlib import blake2s

from koord_model.fields import Fields, text
from koord_model.times import from_rfc3339

FIELDS = ("nodeNames", "priority", "canary", "until", "paused", "bounds")
BOUNDS = ("psiPercent", "schedWaitMs", "evictionsPerHour", "restartsPerHour")
"""Fields of ``bounds``."""

MOST_PRIORITY = 1_000_000
_MOST_BOUND = 1_000_000
_PERCENT = re.compile(r"(100|[0-9]{1,2})%")


@dataclass(frozen=True, slots=True)
class Canary:
    """So many nodes, or percent of those that are selected: rounded up, as one is the least."""

    amount: int
    percent: bool = False

    def of(self, selected: int) -> int:
        """Return how many of so many nodes."""
        return math.ceil(selected * self.amount / 100) if self.percent else self.amount


@dataclass(frozen=True, slots=True)
class Bounds:
    """Excess over nodes like them that canaries may have, on average, before they are halted.

    Services' waiting in percent of the time (PSI) and in milliseconds for each second of CPU, and
    evictions and restarts of containers for each node and hour.
    """

    psi: int = 5
    sched_wait: int = 50
    evictions: int = 1
    restarts: int = 1


@dataclass(frozen=True, slots=True)
class Reach:
    """An entry's reach; as it is without any of these fields, it is all nodes that are selected.

    ``names`` are nodes by name, empty: any. Of entries that select a node, those with names come
    first, then those of higher ``priority``. ``until`` is seconds since the epoch. While an entry
    is ``paused``, its nodes keep what they have.
    """

    names: frozenset[str] = frozenset()
    priority: int = 0
    canary: Canary | None = None
    until: float | None = None
    paused: bool = False
    bounds: Bounds = Bounds()

    @property
    def rank(self) -> tuple[bool, int]:
        """Order of entries; less goes before."""
        return not self.names, -self.priority


ANY = Reach()


def read(entry: Fields) -> Reach:
    """The fields of an entry; what cannot be used is added to the lines of ``entry``."""
    return Reach(
        names=entry.take("nodeNames", frozenset(), _names, "a list of names of nodes", ""),
        priority=entry.number("priority", 0, 0, MOST_PRIORITY),
        canary=entry.take("canary", None, _canary, 'a number of nodes, or percent like "10%"', ""),
        until=entry.take("until", None, _until, 'a time like "2026-12-01T00:00:00Z"', ""),
        paused=entry.flag("paused", default=False),
        bounds=_bounds(entry.of("bounds")),
    )


def first(name: str, nodes: Iterable[str], canary: Canary) -> frozenset[str]:
    """Choose the nodes that an entry of this name reaches first.

    By the hash of both names: the same ones after a restart, others for another entry, and a
    larger canary has all of a smaller one.
    """
    ordered = sorted(nodes, key=lambda node: blake2s(f"{name}/{node}".encode()).digest())
    return frozenset(ordered[: canary.of(len(ordered))])


def _bounds(given: Fields) -> Bounds:
    numbers = (
        given.number(name, default, 0, _MOST_BOUND)
        for name, default in zip(BOUNDS, astuple(Bounds()), strict=True)
    )
    return Bounds(*numbers)


def _names(given: object) -> frozenset[str]:
    if not isinstance(given, list) or not given:
        raise ValueError(given)
    return frozenset(text(name) for name in given)


def _canary(given: object) -> Canary:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return Canary(given)
    if isinstance(given, str) and _PERCENT.fullmatch(given):
        return Canary(int(given[:-1]), percent=True)
    raise ValueError(given)


def _until(given: object) -> float:
    return from_rfc3339(text(given))
