"""Hints of NUMA nodes: where on a node providers can give a pod what it asks for. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom

Mask = int
"""NUMA nodes as bits."""


class NUMAHint(NamedTuple):
    """NUMA nodes that can give what is asked for; ``mask`` ``None`` means any.

    It is ``preferred`` if no fewer nodes could. Among equals the higher ``score`` counts. Where it
    is ``unsatisfied`` the nodes cannot give all.
    """

    mask: Mask | None = None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


ProviderHints = tuple[tuple[str, tuple[NUMAHint, ...] | None], ...]
"""Hints by resource, in the order of these; ``None``: any NUMA node will do, none: none will."""


class TopologyHintProvider(Protocol):
    """A plugin gives a class of pods something of nodes that lies near some of their NUMA nodes.

    Koordinator's ``NUMATopologyHintProvider``. What is ``kept`` for the pod it may have.
    """

    def hints(self, row: int, kept: KeptRoom = NO_ROOM) -> ProviderHints:
        """NUMA nodes of a row's node near which it could give all of it."""
        ...

    def rejection(self, row: int, mask: Mask, kept: KeptRoom = NO_ROOM) -> str:
        """The reason why it could not give all of it near these NUMA nodes; "" if it could."""
        ...


def bits(mask: Mask) -> Iterator[int]:
    """The numbers of the NUMA nodes in a mask, rising."""
    return (place for place in range(mask.bit_length()) if mask >> place & 1)


def mask_of(nodes: Sequence[int]) -> Mask:
    """The mask of NUMA nodes by their numbers."""
    return sum(1 << node for node in set(nodes))
