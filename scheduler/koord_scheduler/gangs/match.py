"""Check for enough members with a node, by match policy. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_scheduler.gangs.gang_spec import MatchPolicy


class MemberCounts(NamedTuple):
    """Number of a gang's members that are about to be bound (``waiting``), and that are."""

    waiting: int
    bound: int


def is_satisfied(
    policy: MatchPolicy, minimum: int, counts: MemberCounts, *, was_satisfied: bool
) -> bool:
    """True if members of a gang may be bound; ``was_satisfied``: some of its group already were."""
    match policy:
        case MatchPolicy.ONLY_WAITING:
            return counts.waiting >= minimum
        case MatchPolicy.WAITING_AND_RUNNING:
            return counts.waiting + counts.bound >= minimum
        case MatchPolicy.ONCE_SATISFIED:
            return was_satisfied or counts.waiting >= minimum
