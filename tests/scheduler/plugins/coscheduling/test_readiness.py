"""Reasons to look at no node for a group of gangs yet."""

from __future__ import annotations

import pytest
from koord_scheduler.gangs.gang_spec import GangSpec, MatchPolicy
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GangMember
from koord_scheduler.gangs.quorum import Quorum
from koord_scheduler.gangs.readiness import has_enough_pods, missing_members
from koord_scheduler.state.cluster_state import ClusterState

A, B = "d/a", "d/b"
GROUP = f"{A},{B}"
POLICY = MatchPolicy.WAITING_AND_RUNNING


def gangs_of(quorum: int | None, **pods: int) -> Gangs:
    """Two gangs of two each, of which there are so many pods."""
    gangs = Gangs(ClusterState())
    least = None if quorum is None else Quorum(quorum, (A, B))
    for name, number in pods.items():
        spec = GangSpec(f"d/{name}", 2, 2, match_policy=POLICY, group=(A, B), quorum=least)
        for place in range(number):
            pod = f"d/{name}{place}"
            gangs.set_member(pod, pod, GangMember(spec.key, spec), is_bound=False)
    return gangs


NO_PODS = "gang d/b has no pods yet"
FEW_A = "gang d/a needs 2 pods: 1 there (waiting-and-running)"


@pytest.mark.parametrize(
    ("quorum", "pods", "ready", "missing"),
    [
        # Both have to start.
        (None, {"a": 2, "b": 2}, {A: 2, B: 2}, ""),
        (None, {"a": 1}, {A: 1}, f"{FEW_A}; {NO_PODS}"),
        (None, {"a": 2}, {A: 2}, NO_PODS),
        # One of them is enough,
        (1, {"a": 2}, {A: 2}, ""),
        (1, {"a": 1}, {A: 1}, f"{FEW_A}; {NO_PODS}"),
        # and another one that is not complete waits for its own pods.
        (1, {"a": 2, "b": 1}, {A: 2, B: 1}, ""),
    ],
)
def test_what_is_missing(
    quorum: int | None, pods: dict[str, int], ready: dict[str, int], missing: str
) -> None:
    gangs = gangs_of(quorum, **pods)
    assert missing_members(gangs, GROUP, ready) == missing
    assert has_enough_pods(gangs, GROUP) == (not missing)


def test_one_that_comes_late_waits_for_its_own_pods() -> None:
    gangs = gangs_of(1, a=2, b=1)
    for place in range(2):
        pod = f"d/a{place}"
        gangs.set_member(pod, pod, GangMember(A), is_bound=True)
    late = "gang d/b needs 2 pods: 1 there (waiting-and-running)"
    assert missing_members(gangs, GROUP, {B: 1}) == late
