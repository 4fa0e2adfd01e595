"""Pods go before the node runs out of memory or starves them, and no more than it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from koord_model.used_threshold import SuppressPolicy
from koord_simulation.node_model.curves import Constant, Ramp
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import AGREED, run, slo, unharmed
from tests.simulation.stories import job, story, web

MEMORY, CPU = "be_memory_evict", "be_cpu_evict"


def memory_node(*pods: Workload, seconds: int = 300, **more: float) -> Scenario:
    """Of 64 GiB; with eight jobs of 4 GiB and 2 GiB of the system the rest decides."""
    machine = SimulatedMachine(cpus=16, memory=64 * GIB)
    asked = slo(memory_evict=80, memory_evict_lower=70)
    return story(*pods, seconds=seconds, machine=machine, slo=asked, **more)


def memory_jobs(count: int = 8) -> list[Workload]:
    return [job(f"job-{number}", 1.0, memory=Constant(4 * GIB)) for number in range(count)]


def cache(memory: object) -> Workload:
    return replace(web("cache"), memory=memory, requests={"cpu": 2000, "memory": 30 * GIB})  # type: ignore[arg-type]


def test_jobs_go_in_time_and_the_service_is_never_killed() -> None:
    pods = cache(Ramp(8 * GIB, 30 * GIB, 30, 190)), *memory_jobs(), job("leak", 1.0, leak=60 * MIB)
    held = memory_node(*pods)
    ran, free = run(held, MEMORY), simulate(held)
    unharmed(ran)
    assert free.kills
    assert ran.kills == []
    assert ran.evictions
    assert all("job" in one or "leak" in one for one in ran.evicted())
    assert ran.memory.max() < 64 * GIB * 0.95


def test_as_much_is_freed_as_is_needed_and_no_more() -> None:
    """Koordinator credits a victim a thousand times its memory, and stops: memory_evict.go."""
    ran = run(memory_node(cache(Ramp(8 * GIB, 22 * GIB, 30, 60)), *memory_jobs()), MEMORY)
    # 56 of 64 GiB; down to 70 % are 44.8: three jobs of 4 GiB, in one go.
    assert len(ran.evictions) == 3
    assert len({one.at for one in ran.evictions}) <= 2
    assert 0.7 * 64 * GIB - 4 * GIB < ran.memory[-1] <= 0.7 * 64 * GIB
    assert "frees 4 GiB" in ran.evictions[0].why


def test_an_evicted_pod_that_comes_back_is_not_evicted_over_and_over() -> None:
    """There is a budget, and a time to cool: K#1757's kind of harm is bounded."""
    pods = cache(Constant(52 * GIB)), *memory_jobs(4)
    ran = run(memory_node(*pods, seconds=600, comes_back=5.0), MEMORY)
    times = np.array([one.at for one in ran.evictions])
    assert max(np.sum((times >= at) & (times < at + 60)) for at in range(0, 600, 10)) <= 10


def cpu_node(asked: object, *pods: Workload) -> Scenario:
    machine = SimulatedMachine(cpus=32, memory=128 * GIB)
    return story(*pods, seconds=300, machine=machine, slo=asked)


def cpu_jobs(count: int, **more: object) -> list[Workload]:
    """Each requests 2 CPUs and would use 3."""
    return [job(f"job-{number}", 3.0, **more) for number in range(count)]


def test_jobs_that_are_starved_go_until_the_others_have_enough() -> None:
    asked = slo(
        cpu_suppress=65,
        cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
        cpu_evict_satisfaction_lower=40,
        cpu_evict_satisfaction_upper=60,
        cpu_evict_window_seconds=60,
    )
    # Best-effort pods have 2 to 5 of 32 CPUs.
    busy = replace(web(), cpu=Ramp(4, 13, 40, 60))
    ran = run(cpu_node(asked, busy, *cpu_jobs(8)), "cpu_suppress", CPU)
    unharmed(ran)
    assert 1 <= len(ran.evictions) <= 6
    assert ran.evictions[0].at > 90, "an average over a minute"
    assert ran.be_allowed[-1] >= 0.4 * 2 * (8 - len(ran.evictions))
    assert "best-effort pods have too little CPU" in ran.evictions[0].why


def test_a_node_that_is_too_busy_evicts_who_agreed() -> None:
    asked = slo(cpu_evict=85, cpu_evict_lower=75, evict_priority=5999, cpu_evict_window_seconds=30)
    others = [replace(one, name=f"x{one.name}") for one in cpu_jobs(4)]
    pods = replace(web(), cpu=Ramp(1, 6, 60, 70)), *cpu_jobs(4, labels=AGREED), *others
    ran = run(cpu_node(asked, *pods), "cpu_evict")
    unharmed(ran)
    assert 1 <= len(ran.evictions) <= 4
    assert {one.removeprefix("default/")[:4] for one in ran.evicted()} == {"job-"}
    times = [one.at for one in ran.evictions]
    assert len(set(times)) == 1 or np.diff(sorted(set(times))).min() >= 20, "the cool time"
