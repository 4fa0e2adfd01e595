"""GPUs that are near each other: under one PCIe switch, or of one NUMA node. No IO.

Koordinator's ``deviceshare/allocator_gpu.go``, ``allocateFromScope``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from koord_scheduler.plugins.device_share.device_hints import TopologyLevel
from koord_scheduler.plugins.device_share.device_object import NodeDevice


class GPUScope(NamedTuple):
    """GPUs by number that are as near to each other as ``level`` says, and nearer ones of them."""

    level: TopologyLevel
    minors: tuple[int, ...]
    inner: tuple[GPUScope, ...] = ()


class _Found(NamedTuple):
    """The best choice of a scope.

    Compared by how many preferred cards it has, how near the cards are, then by how full it is.
    """

    preferred: int
    depth: int
    begun: int
    score: int
    minors: tuple[int, ...]

    def beats(self, other: _Found) -> bool:
        return self[:4] > other[:4]


def gpu_scopes(devices: Mapping[int, NodeDevice]) -> GPUScope | None:
    """The node with its NUMA nodes and PCIe switches; ``None`` where not all places are known."""
    places: dict[int, dict[str, list[int]]] = {}
    for minor, device in sorted(devices.items()):
        if device.topology is None:
            return None
        switches = places.setdefault(device.topology.numa_node, {})
        switches.setdefault(device.topology.pcie, []).append(minor)
    if not places:
        return None
    return GPUScope(
        TopologyLevel.NODE,
        tuple(sorted(devices)),
        tuple(_numa_scope(switches) for _, switches in sorted(places.items())),
    )


def _numa_scope(switches: Mapping[str, list[int]]) -> GPUScope:
    inner = tuple(
        GPUScope(TopologyLevel.PCIE, tuple(minors)) for _, minors in sorted(switches.items())
    )
    minors = sorted(minor for minors in switches.values() for minor in minors)
    return GPUScope(TopologyLevel.NUMA_NODE, tuple(minors), inner)


@dataclass(frozen=True)
class ScopeSearch:
    """Search for ``count`` GPUs that have enough free, nearer to each other than ``level``.

    ``used`` are the GPUs of which pods have anything. ``score`` is that of a part of a GPU, where
    a pod takes a part of one; ``None``: it takes whole ones. Those that are ``preferred`` come
    before others, though these are nearer to each other.
    """

    count: int
    level: TopologyLevel
    has_room: Callable[[int], bool]
    used: frozenset[int]
    score: Callable[[int], int] | None = None
    preferred: frozenset[int] = frozenset()

    def best(self, scope: GPUScope) -> tuple[int, ...] | None:
        """The nearest that there are; of equally near ones where most is used already.

        ``None``: there are not enough.
        """
        found = self._best(scope, 0, 0)
        return None if found is None else found.minors

    def _best(self, scope: GPUScope, depth: int, begun: int) -> _Found | None:
        if len(scope.minors) < self.count:
            return None
        depth += 1
        begun += not self.used.isdisjoint(scope.minors)
        best: _Found | None = None
        for inner in scope.inner:
            found = self._best(inner, depth, begun)
            if found is not None and (best is None or found.beats(best)):
                best = found
        if best is not None and best.preferred == min(self.count, len(self.preferred)):
            return best
        # One GPU is as near to itself as can be.
        if self.level > scope.level and not (self.count == 1 and scope.level is TopologyLevel.PCIE):
            return best
        here = self._here(scope, depth, begun)
        return here if here is not None and (best is None or here.beats(best)) else best

    def _here(self, scope: GPUScope, depth: int, begun: int) -> _Found | None:
        fitting = [minor for minor in scope.minors if self.has_room(minor)]
        if len(fitting) < self.count:
            return None
        fitting.sort(key=lambda one: one not in self.preferred)
        if self.score is None:
            taken = tuple(sorted(fitting[: self.count]))
            return _Found(len(self.preferred.intersection(taken)), depth, begun, 0, taken)
        scores = {minor: self.score(minor) for minor in fitting}
        minor = max(fitting, key=lambda one: (one in self.preferred, scores[one], -one))
        return _Found(int(minor in self.preferred), depth, begun, scores[minor], (minor,))
