"""Slowdown of work by neighbours in the core, in the cache and on the memory bus.

- **core**: with both threads of a core busy each is 1.5 times as slow. The balancer prefers idle
  cores, so that the thread beside is busy with the square of how busy its pool is.
- **cache**: each busy core wants ``llc_bytes``. The ways of the cache are shared, in proportion to
  what is wanted of each, by the resctrl groups that may use them. What a group does not get it
  misses; missing everything makes it 1 + ``llc_sensitivity`` times as slow.
- **memory bus**: a busy core moves ``bandwidth`` when it misses everything and a fifth of that
  when nothing, a group of limited bandwidth (MBA) only so many percent of it. From 70 % of what the
  machine can, all are slowed down, by ``llc_sensitivity`` once more when it is full.

All caches of the machine count as one. No IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from koord_model.resctrl import CacheWays
from koord_prediction.histogram import Floats

from koord_simulation.node_model.cpu_sharing import CPUSharing
from koord_simulation.node_model.machine import SimulatedMachine

CORE_COST = 0.5
_BUS_FROM = 0.7
_HITTING = 0.2


class CacheShare(NamedTuple):
    """Limits of a resctrl group: its name, ways in percent, memory bandwidth in percent."""

    name: str = ""
    ways: CacheWays = CacheWays()
    mb: int = 100


class Slowdown(NamedTuple):
    """Slowdown in a second, by container.

    ``times`` is how many times slower it is, ``occupied`` bytes of cache, ``moved`` bytes over
    the memory bus.
    """

    times: Floats
    occupied: Floats
    moved: Floats


class SlowdownModel:
    """Made anew where containers, cpusets or resctrl groups change."""

    def __init__(
        self,
        machine: SimulatedMachine,
        sharing: CPUSharing,
        wants: Sequence[tuple[float, float, float]],
        shares: Sequence[CacheShare],
    ) -> None:
        """``wants`` are each container's llc_bytes, llc_sensitivity and bandwidth."""
        columns = np.array(wants, np.float64).reshape(len(wants), 3)
        self._bytes, self._sensitivity, self._bandwidth = columns.T
        self._bus = machine.bandwidth
        kinds = list(dict.fromkeys(shares))
        self._of = np.array([kinds.index(share) for share in shares], np.intp)
        self._mb = np.array([share.mb / 100 for share in shares], np.float64)
        self._reach = _ways(machine.llc_ways, kinds)
        self._way = machine.llc_bytes / machine.llc_ways
        self._beside = sharing.beside
        self._spread = np.array(
            [
                [atom.size / size if mask & atom.mask else 0.0 for atom in sharing.atoms]
                for mask, size in zip(sharing.masks, sharing.sizes, strict=True)
            ]
        ).reshape(len(wants), len(sharing.atoms))

    def step(self, given: Floats, busy: Sequence[float]) -> Slowdown:
        """With so many cores used by each container, and pools so busy."""
        used = np.asarray(given, np.float64)
        core = 1 + CORE_COST * (self._spread @ (self._beside @ np.square(busy)))
        wanted = self._bytes * used
        missed, occupied = self._missed(wanted)
        moved = used * self._bandwidth * (_HITTING + (1 - _HITTING) * missed) * self._mb
        full = float(moved.sum()) / self._bus
        over = min(max(full - _BUS_FROM, 0.0) / (1 - _BUS_FROM), 2.0)
        cache = 1 + self._sensitivity * (missed + over + (1 - self._mb))
        return Slowdown(core * cache, occupied, moved)

    def _missed(self, wanted: Floats) -> tuple[Floats, Floats]:
        """By container the part of its cache that it misses, and the bytes it has."""
        count = len(self._reach)
        by_group = np.bincount(self._of, wanted, count)
        dense = self._reach * (by_group / self._reach.sum(axis=1))[:, None]
        whole = dense.sum(axis=0)
        parts = np.divide(dense, whole, out=np.zeros_like(dense), where=whole > 0)
        has = np.minimum((parts * self._way).sum(axis=1), by_group)
        hit = np.divide(has, by_group, out=np.ones(count), where=by_group > 0)
        return 1 - hit[self._of], wanted * hit[self._of]


def _ways(count: int, kinds: Sequence[CacheShare]) -> Floats:
    """A row a group, 1 for each way that it may use; at least one way each."""
    reach = np.zeros((len(kinds), count))
    for row, kind in zip(reach, kinds, strict=True):
        first = min(kind.ways.start * count // 100, count - 1)
        row[first : max(-(-kind.ways.end * count // 100), first + 1)] = 1.0
    return reach


def shares_of(groups: Sequence[str], classes: Mapping[str, CacheShare]) -> list[CacheShare]:
    """The share of each container's cgroup; the whole cache if it is in no group."""
    return [classes.get(group, CacheShare()) for group in groups]
