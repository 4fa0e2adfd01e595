"""Pods go before the node runs out of memory, and no more of them than it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koord_model.node_slo import NodeSLO
from koord_simulation.node_model.curves import Constant, Ramp
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
