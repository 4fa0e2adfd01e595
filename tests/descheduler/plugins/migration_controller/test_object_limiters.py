"""Pods of one controller are evicted with pauses, whatever the jobs are."""

from __future__ import annotations

import math
from typing import Any

import pytest
from koord_descheduler.migration.core.job import JobOrigin, PodReference
from koord_descheduler.objects.observed_pod import ObservedPod, WorkloadName
from koord_descheduler.plugins.migration_controller import object_limiters
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_descheduler.plugins.migration_controller.object_limiters import ObjectLimiters
from koord_scheduler.arguments.problems import convert


def limiters(**given: Any) -> ObjectLimiters:
    return ObjectLimiters(convert({"objectLimiters": given}, MigrationControllerArgs))


def of(owner: str, namespace: str) -> ObservedPod:
    workload = WorkloadName("apps/v1", "ReplicaSet", namespace, "w") if owner else None
    return JobOrigin("a", owner, workload).pod(PodReference(namespace, "p"))


def wait(found: ObjectLimiters, owner: str, namespace: str, now: float) -> float:
    return found.wait(of(owner, namespace), now)


def test_one_of_three_replicas_in_five_minutes() -> None:
    found = ObjectLimiters(MigrationControllerArgs())
    assert wait(found, "u", "ns", 0.0) == 0
    found.spend("u", "ns", 3, 0.0)
    assert (wait(found, "u", "ns", 0.0), wait(found, "v", "ns", 0.0)) == (300.0, 0)
    assert round(wait(found, "u", "ns", 100.0)) == 200
    assert wait(found, "u", "ns", 300.0) == 0


def test_the_rate_follows_the_limit_of_the_workload() -> None:
    found = ObjectLimiters(MigrationControllerArgs())
    found.spend("u", "ns", 100, 0.0)
    assert round(wait(found, "u", "ns", 0.0)) == 30
    found = limiters(workload={"duration": "60s", "maxMigrating": "50%", "burst": 2})
    found.spend("u", "ns", 4, 0.0)
    assert wait(found, "u", "ns", 0.0) == 0
    found.spend("u", "ns", 4, 0.0)
    assert wait(found, "u", "ns", 0.0) == 30


def test_a_burst_of_none_is_one() -> None:
    found = limiters(workload={"duration": "60s", "maxMigrating": 1, "burst": 0})
    found.spend("u", "ns", 4, 0.0)
    assert (wait(found, "u", "ns", 0.0), wait(found, "u", "ns", 60.0)) == (60.0, 0)
    found.spend("u", "ns", 4, 600.0)
    assert wait(found, "u", "ns", 600.0) == 60.0, "more than the burst is never saved"


def test_the_number_of_buckets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_limiters, "_MOST", 2)
    found = limiters(workload={"duration": "60s", "maxMigrating": 1})
    for owner in "abac":
        found.spend(owner, "ns", 4, 0.0)
    assert [bool(wait(found, owner, "ns", 0.0)) for owner in "abc"] == [True, False, True]
    found.clear()
    assert not wait(found, "c", "ns", 0.0)


def test_the_longest_limit_says_how_long_evictions_count() -> None:
    found = limiters(workload={"duration": "5m"}, namespace={"duration": "1h", "maxMigrating": 1})
    assert (found.longest, limiters().longest) == (3600.0, 0.0)


def test_namespaces_have_limiters_of_their_own() -> None:
    found = limiters(namespace={"duration": "10s", "maxMigrating": 1})
    found.spend("", "ns", None, 0.0)
    assert (wait(found, "u", "ns", 0.0), wait(found, "u", "other", 0.0)) == (10.0, 0)


def test_bare_pods_and_limiters_without_a_duration_have_no_pause() -> None:
    found = limiters(workload={"duration": "0s"}, namespace={"duration": "1m"})
    for now in (0.0, 0.0):
        found.spend("u", "ns", 1, now)
    found.spend("", "ns", None, 0.0)
    assert wait(found, "u", "ns", 0.0) == wait(found, "", "ns", 0.0) == 0


def test_a_clock_that_goes_back_adds_no_tokens() -> None:
    """State is rebuilt from jobs, the oldest first; a clock that went back adds nothing."""
    found = ObjectLimiters(MigrationControllerArgs())
    found.spend("u", "ns", 1, 100.0)
    assert wait(found, "u", "ns", 50.0) == 300.0
    assert round(wait(found, "u", "ns", 150.0)) == 250


def test_pods_that_move_together_need_their_turns_at_once() -> None:
    found = limiters(workload={"duration": "60s", "maxMigrating": 2, "burst": 2})
    pod = of("u", "ns")
    assert found.wait(pod, 0.0, [of("v", "ns"), pod]) == 0
    assert found.wait(pod, 0.0, [pod, pod]) == math.inf
    assert "never" in found.obstacle(pod, 0.0, [pod, pod])
    found.spend("u", "ns", 4, 0.0)
    assert (found.wait(pod, 0.0), found.wait(pod, 0.0, [pod])) == (0, 30.0)
