"""Whether enough members of gangs have a node, by their match policies. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_scheduler.gangs.gang_spec import MatchPolicy


class MemberCounts(NamedTuple):
    """How many members of a gang are about to be bound (``waiting``), and how many are."""

    waiting: int
    bound: int


def is_satisfied(
    policy: MatchPolicy, minimum: int, counts: MemberCounts, *, was_satisfied: bool
) -> bool:
    """Whether members of a gang may be bound; ``was_satisfied``: some of its group were already."""
    match policy:
        case MatchPolicy.ONLY_WAITING:
            return counts.waiting >= minimum
        case MatchPolicy.WAITING_AND_RUNNING:
            return counts.waiting + counts.bound >= minimum
        case MatchPolicy.ONCE_SATISFIED:
            return was_satisfied or counts.waiting >= minimum
