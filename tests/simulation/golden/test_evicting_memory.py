"""Pods go before the node runs out of memory, and no more of them than it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.node_slo import NodeSLO
from koord_model.node_slo_document import parse
from koord_simulation.node_model.curves import Constant, Ramp
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import AGREED, run, said, slo, unharmed
from tests.simulation.stories import job, story, web

NAME = "be_memory_evict"
BAND = {"memory_evict": 80, "memory_evict_lower": 70}
RISING = Ramp(8 * GIB, 40 * GIB, 30, 190)
"""With eight jobs of 4 GiB and 2 GiB of the system: 66 % of 64 GiB, and more each second."""


def jobs(count: int = 8, **more: Any) -> list[Workload]:
    return [job(f"job-{number}", 1.0, memory=Constant(4 * GIB), **more) for number in range(count)]


def node(*pods: Workload, seconds: int = 200, **more: Any) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=16, memory=64 * GIB), "slo": slo(**BAND), **more}
    return story(*pods, seconds=seconds, **given)


def cache(memory: object = RISING) -> Workload:
    return replace(web("cache"), memory=memory, requests={"cpu": 2000, "memory": 30 * GIB})  # type: ignore[arg-type]


def test_jobs_go_in_time_and_the_service_is_never_killed() -> None:
    pods = cache(Ramp(8 * GIB, 30 * GIB, 30, 190)), *jobs(), job("leak", 1.0, leak=60 * MIB)
    held = node(*pods, seconds=300)
    ran, free = run(held, NAME), simulate(held)
    unharmed(ran)
    assert free.kills
    assert ran.kills == []
    assert ran.evictions
    assert all("job" in one or "leak" in one for one in ran.evicted())
    assert ran.memory.max() < 64 * GIB * 0.95


def test_as_much_is_freed_as_is_needed_and_no_more() -> None:
    """Koordinator credits a victim a thousand times its memory, and stops: memory_evict.go."""
    pods = cache(Ramp(8 * GIB, 22 * GIB, 30, 60)), *jobs()
    ran = run(node(*pods), NAME)
    # 56 of 64 GiB; down to 70 % are 44.8: three jobs of 4 GiB, in one go.
    assert len(ran.evictions) == 3
    assert len({one.at for one in ran.evictions}) <= 2
    assert ran.memory[-1] <= 0.7 * 64 * GIB
    assert ran.memory[-1] > 0.7 * 64 * GIB - 4 * GIB
    assert "frees 4 GiB" in ran.evictions[0].why


def test_the_lowest_priority_goes_first_then_who_uses_most() -> None:
    large = replace(jobs(1)[0], name="large", priority=5500, memory=Constant(7 * GIB))
    low = replace(jobs(1)[0], name="low", priority=5000, memory=Constant(1 * GIB))
    high = replace(jobs(1)[0], name="high", priority=5999, memory=Constant(9 * GIB))
    ran = run(node(cache(), high, large, low, seconds=220), NAME)
    names = [one.removeprefix("default/") for one in ran.evicted()]
    assert names[:2] == ["low", "large"]


def test_who_may_not_go_stays_and_it_is_said() -> None:
    """Nobody can go: no attempt upon attempt, one line says why."""
    system = [replace(one, namespace="kube-system") for one in jobs(3)]
    ran = run(node(cache(Constant(44 * GIB)), *system), NAME)
    assert ran.evictions == []
    assert said(ran, "memory is at or above its threshold")


def test_a_node_without_batch_pods_evicts_nobody() -> None:
    ran = run(node(cache(Constant(54 * GIB))), NAME)
    unharmed(ran)
    assert ran.evictions == []


@pytest.mark.parametrize("metrics", ["node_memory_usage", "*"])
def test_without_metrics_nobody_goes_and_it_is_said(metrics: str) -> None:
    missing = Fault(FaultKind.MISSING, 20, 150, metrics)
    ran = run(node(cache(Ramp(8 * GIB, 24 * GIB, 40, 60)), *jobs(), faults=(missing,)), NAME)
    unharmed(ran)
    assert [one for one in ran.evictions if one.at < 150] == []
    assert said(ran, "no eviction: how much memory is used is not known")
    assert ran.evictions[0].at <= 152


def test_pods_that_are_not_measured_are_not_taken_for_free() -> None:
    missing = Fault(FaultKind.MISSING, 20, 150, "pod_memory_usage")
    ran = run(node(cache(Ramp(8 * GIB, 24 * GIB, 40, 60)), *jobs(), faults=(missing,)), NAME)
    unharmed(ran)
    assert [one for one in ran.evictions if 40 < one.at < 150] == []


def test_without_a_node_slo_or_a_list_of_pods_nobody_goes() -> None:
    for kind in (FaultKind.NO_SLO, FaultKind.PODS_UNKNOWN):
        pods = cache(Ramp(8 * GIB, 24 * GIB, 40, 60)), *jobs()
        ran = run(node(*pods, faults=(Fault(kind, 20, 150),)), NAME)
        unharmed(ran)
        assert [one for one in ran.evictions if one.at < 150] == [], kind
        assert ran.evictions, kind


def test_the_clock_does_not_matter() -> None:
    jumps = tuple(
        Fault(FaultKind.CLOCK, at, at + 20, seconds=by) for at, by in ((30, 1e6), (110, -1e6))
    )
    pods = cache(), *jobs()
    with_jumps, without = run(node(*pods, faults=jumps), NAME), run(node(*pods), NAME)
    assert [one[:2] for one in with_jumps.evictions] == [one[:2] for one in without.evictions]


def test_a_restart_evicts_nobody_twice() -> None:
    """What is on its way out counts, whoever sent it: a pod that ends is seen to end."""
    again = tuple(Fault(FaultKind.RESTART, at) for at in range(56, 100, 5))
    pods = cache(Ramp(8 * GIB, 22 * GIB, 30, 60)), *jobs()
    ran = run(node(*pods, faults=again), NAME)
    assert len(ran.evictions) == len(set(ran.evicted())) == 3


def test_a_setting_that_makes_no_sense_is_named_and_the_rest_holds() -> None:
    """Koordinator switches eviction off and only logs a warning: K#2804."""
    section = {
        "enable": True,
        "memoryEvictThresholdPercent": 80,
        "memoryEvictLowerPercent": 85,
        "cpuSuppressThresholdPercent": "sixty",
    }
    asked, ignored = parse({"resourceUsedThresholdWithBE": section})
    assert any("memoryEvictLowerPercent" in line for line in ignored)
    assert any("cpuSuppressThresholdPercent" in line for line in ignored)
    ran = run(node(cache(Ramp(8 * GIB, 24 * GIB, 40, 60)), *jobs(), slo=asked), NAME)
    assert ran.evictions, "by the default threshold"
    # Given to the strategy itself, it says in its decision which field keeps it from working.
    wrong = replace(slo(**BAND), strategies={NAME: {"lower_percent": 85}})
    off = run(node(cache(), *jobs(), slo=wrong), NAME)
    assert off.evictions == []
    assert [one.at for one in said(off, "memoryEvictLowerPercent is 85")] == [0]


def test_an_evicted_pod_that_comes_back_is_not_evicted_over_and_over() -> None:
    """There is a budget, and a time to cool: K#1757's kind of harm is bounded.

    That PodDisruptionBudgets are respected is the evictor's (tests/koordlet/qos_manager/eviction).
    """
    ran = run(node(cache(Constant(52 * GIB)), *jobs(4), seconds=600, comes_back=5.0), NAME)
    by_minute = [
        sum(start <= one.at < start + 60 for one in ran.evictions) for start in range(0, 600, 10)
    ]
    assert max(by_minute) <= 10


# ---- the other rules


def test_memory_evict_takes_only_who_agreed() -> None:
    asked = slo(memory_evict=80, memory_evict_lower=70, evict_priority=5999)
    agreed = jobs(3, labels=AGREED)
    others = [replace(one, name=f"other-{one.name}") for one in jobs(5)]
    ran = run(node(cache(), *agreed, *others, slo=asked), "memory_evict")
    unharmed(ran)
    assert sorted(ran.evicted()) == ["default/job-0", "default/job-1", "default/job-2"]
    silent = run(node(cache(), *agreed, slo=slo(**BAND)), "memory_evict")
    assert silent.evictions == []
    assert said(silent, "evictEnabledPriorityThreshold is not set")


def test_more_memory_was_promised_than_there_is_now() -> None:
    asked = slo(
        memory_allocatable_evict=110,
        memory_allocatable_evict_lower=100,
        allocatable_evict_priority=5999,
    )
    machine = SimulatedMachine(
        cpus=16, memory=64 * GIB, allocatable={"kubernetes.io/batch-memory": 10 * GIB}
    )
    pods = jobs(8, labels=AGREED)  # 2 GiB each are promised
    ran = run(node(*pods, slo=asked, machine=machine), "memory_allocatable_evict")
    unharmed(ran)
    assert len(ran.evictions) == 3
    enough = replace(machine, allocatable={"kubernetes.io/batch-memory": 16 * GIB})
    quiet = run(node(*pods, slo=asked, machine=enough), "memory_allocatable_evict")
    assert quiet.evictions == []


def soft(**more: Any) -> NodeSLO:
    one = {"signal": "memory.available", "percent": 20, "grace_seconds": 60, **more}
    return replace(slo(), strategies={"threshold_evict": {"thresholds": [one]}})


def test_a_soft_threshold_waits_and_a_hard_one_does_not() -> None:
    name = "threshold_evict"
    rises = cache(Ramp(8 * GIB, 20 * GIB, 40, 50))
    waits = run(node(rises, *jobs(), slo=soft()), name)
    begun = next(n for n, used in enumerate(waits.memory) if used > 0.8 * 64 * GIB)
    assert begun + 58 <= waits.evictions[0].at <= begun + 75
    # A spike that is over within the grace period costs nobody anything.
    short = cache(Ramp(8 * GIB, 20 * GIB, 40, 50) + Ramp(0, -12 * GIB, 80, 85))
    assert run(node(short, *jobs(), slo=soft()), name).evictions == []
    hard = run(node(rises, *jobs(), slo=soft(grace_seconds=0, hard=True)), name)
    assert hard.evictions[0].at <= begun + 2
    unharmed(waits, hard)
