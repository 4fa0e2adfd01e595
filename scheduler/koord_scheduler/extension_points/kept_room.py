"""Room on a node that is kept for a pod, and what a node lacks with it. No IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from koord_scheduler.state.pod_parts import PodPart
from koord_scheduler.state.pod_usage import PodUsage


class KeptRoom(NamedTuple):
    """Room that others count as taken, by holder: of one, or of all that a pod may ignore.

    If it is ``restricted``, the pod gets nothing else of the kinds that are kept. What all
    holders in ``missing`` have counts as free in the columns at present, though it is not.
    """

    kept: tuple[PodUsage, ...] = ()
    restricted: bool = False
    missing: tuple[PodUsage, ...] = ()

    @property
    def has_more(self) -> bool:
        """Return True if features have parts in it, beside amounts."""
        return any(map(has_more, self.kept))


NO_ROOM = KeptRoom()

Lacks = Callable[[KeptRoom | None], str]
"""Function of a node's shortage besides amounts, with what is kept or ``None``; "": none."""

TAKES_ROOM: PodPart[bool] = PodPart("takes the room of pods", False)
"""True for what gets its room, and all else, from pods that are on the node already."""


def has_more(usage: PodUsage) -> bool:
    """Return True if features have parts in room that can be shared out."""
    return any(True for _ in usage.parts.shared())
