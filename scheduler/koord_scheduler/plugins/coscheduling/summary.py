"""A gang in the scheduler's service, with Koordinator's names. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from koord_scheduler.gangs.gang_spec import (
    GangMode,
    GangSource,
    GangSpec,
    MatchPolicy,
)
from koord_scheduler.gangs.gangs import Gang, Gangs

_UNKNOWN = GangSpec(
    "", 0, 0, GangMode.STRICT, MatchPolicy.ONCE_SATISFIED, 0.0, source=GangSource.POD
)
_NANOSECONDS = 10**9


def gang_summary(gang: Gang, gangs: Gangs) -> dict[str, Any]:
    """A document about one; sets are objects with empty values, as Go writes them."""
    spec, group = gang.spec or _UNKNOWN, gangs.group(gang.group_id)
    keys = list(spec.group or (gang.key,))
    return {
        "name": gang.key,
        "waitTime": round(spec.wait_seconds * _NANOSECONDS),
        "createTime": datetime.fromtimestamp(max(spec.created, 0.0), UTC)
        .isoformat()
        .replace("+00:00", "Z"),
        "mode": spec.mode,
        "gangMatchPolicy": spec.match_policy,
        "minRequiredNumber": spec.min_member,
        "totalChildrenNum": spec.total,
        "gangGroup": keys,
        "children": _set(gang.members),
        "pendingChildren": _set(gang.waiting()),
        "waitingForBindChildren": _set(gang.assumed),
        "boundChildren": _set(gang.bound),
        "onceResourceSatisfied": group.was_satisfied,
        "gangGroupInfo": {
            "Initialized": gang.spec is not None,
            "GangGroupId": gang.group_id,
            "GangGroup": keys,
            "OnceResourceSatisfied": group.was_satisfied,
            "WaitingGangIDs": {},
            "RepresentativePodKey": "",
            "BindingMemberPods": None,
        },
        "gangFrom": spec.source,
        "hasGangInit": gang.spec is not None,
    }


def _set(keys: Iterable[str]) -> dict[str, dict[str, str]]:
    return {key: {} for key in sorted(keys)}
