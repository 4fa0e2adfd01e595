"""Readiness of a gang group for an attempt, and reasons against it. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_scheduler.gangs.gangs import Gang, Gangs


def missing_members(gangs: Gangs, group_id: str, ready: Mapping[str, int]) -> str:
    """Return why no node has to be looked at for a group yet, in a line; "" if it is complete.

    ``ready`` counts the pods whose turn it is, by gang.
    """
    unsatisfied = gangs.lacking(group_id, ready) or _stuck(gangs, group_id, ready)
    found = (
        _missing(key, gang, ready.get(key, 0))
        for key, gang in gangs.of_group(group_id)
        if key in unsatisfied
    )
    return "; ".join(filter(None, found))


def has_enough_pods(gangs: Gangs, group_id: str) -> bool:
    """True if each gang of a group has as many pods as it needs; much quicker than the above."""
    enough = {key for key, gang in gangs.of_group(group_id) if _has_enough(gang)}
    return gangs.is_enough(group_id, enough)


def _has_enough(gang: Gang | None) -> bool:
    return gang is not None and gang.spec is not None and len(gang.members) >= gang.spec.min_member


def _stuck(gangs: Gangs, group_id: str, ready: Mapping[str, int]) -> list[str]:
    """Gangs that come late to a group that has started, if none of them can follow it."""
    found = gangs.unsatisfied(group_id, ready)
    return [key for key in found if key in ready] if found and ready.keys() <= set(found) else []


def _missing(key: str, gang: Gang | None, ready: int) -> str:
    if gang is None:
        return f"gang {key} has no pods yet"
    spec = gang.spec
    if spec is None:
        problem = next((member.problem for member in gang.members.values() if member.problem), "")
        why = f" ({problem})" if problem else ""
        return f"gang {key} has neither a PodGroup nor pods with a valid min-available{why}"
    if gang.problem:
        return f"PodGroup {key}: {gang.problem}"
    parts = ", ".join(_parts(gang, ready))
    return f"gang {key} needs {spec.min_member} pods: {parts} ({spec.match_policy})"


def ignored(gangs: Gangs, group_id: str) -> str:
    """Describe invalid settings of a group's gangs, in brackets; "" without any."""
    specs = (one.spec for _, one in gangs.of_group(group_id) if one is not None)
    lines = [line for spec in specs if spec is not None for line in spec.ignored]
    return f" (ignored: {'; '.join(lines)})" if lines else ""


def _parts(gang: Gang, ready: int) -> Iterator[str]:
    others = len(gang.waiting()) - ready
    yield f"{len(gang.members)} there"
    for number, text in (
        (len(gang.assumed), "about to be bound"),
        (len(gang.bound), "bound"),
        (others, "not schedulable yet (gates, or a retry)"),
    ):
        if number:
            yield f"{number} {text}"
