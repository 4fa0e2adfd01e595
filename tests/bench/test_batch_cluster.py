"""The simulated batch cluster does what it measures: gangs whole, quotas kept, room lent."""

from __future__ import annotations

import pytest

from bench.batch_cluster import (
    LENDING,
    RECLAIMING,
    STRICT,
    BatchCluster,
    Policy,
    Usage,
    fair_shares,
    jain,
)
from bench.batch_jobs import Job

HOUR = 3600.0


def run(jobs: list[Job], policy: Policy) -> Usage:
    """Five nodes of eight cards: eight cards for each of five teams."""
    return BatchCluster(5, policy).run(jobs, 4 * HOUR)


def job(number: int, team: str, members: int, gpus: int = 1, arrival: float = 0.0) -> Job:
    return Job(number, arrival, HOUR, team, members, 1000, 1024, 1000 * gpus)


def test_a_team_has_to_wait_unless_others_lend() -> None:
    jobs = [job(0, "red", 8), job(1, "red", 8)]
    assert run(jobs, STRICT).waits == {8: [0.0, HOUR]}
    assert run(jobs, LENDING).waits == {8: [0.0, 0.0]}


def test_a_gang_that_fits_only_in_part_waits() -> None:
    usage = run([job(0, "red", 6), job(1, "red", 4)], STRICT)
    assert usage.waits == {6: [0.0], 4: [HOUR]}
    assert usage.allocated == 10 * HOUR


def test_what_was_lent_is_given_back_by_evictions_alone() -> None:
    lent = [job(number, "red", 8) for number in range(5)]
    own = job(5, "green", 8, arrival=600.0)
    assert max(run([*lent, own], LENDING).waits[8]) == HOUR - 600
    usage = run([*lent, own], RECLAIMING)
    assert usage.evicted == 1
    assert usage.lost == pytest.approx(8 * 780)
    assert sum(len(waits) for waits in usage.waits.values()) == 6


def test_fairness() -> None:
    assert fair_shares({"a": 10.0, "b": 2.0, "c": 9.0}, 12.0) == {"b": 2.0, "a": 5.0, "c": 5.0}
    assert jain([1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
