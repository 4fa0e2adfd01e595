"""Pods go that get too little CPU, or that the node has no CPU for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from koord_model.qos import QoSClass
from koord_model.used_threshold import SuppressPolicy
from koord_simulation.node_model.curves import Constant, Noise, Ramp, Spikes
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import AGREED, run, slo, unharmed
from tests.simulation.stories import BATCH, job, story, web

NAME = "be_cpu_evict"
BOTH = ("cpu_suppress", NAME)
ASKED = slo(
    cpu_suppress=65,
    cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
    cpu_evict_satisfaction_lower=40,
    cpu_evict_satisfaction_upper=60,
    cpu_evict_window_seconds=60,
)
BUSY = replace(web(), cpu=Ramp(4, 13, 40, 60))
"""With it best-effort pods have 2 to 5 of 32 CPUs."""


def jobs(count: int = 8, **more: Any) -> list[Workload]:
    """Each requests 2 CPUs and would use 3."""
    return [job(f"job-{number}", 3.0, **more) for number in range(count)]


def node(*pods: Workload, seconds: int = 300, **more: Any) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=32, memory=128 * GIB), "slo": ASKED, **more}
    return story(*pods, seconds=seconds, **given)


def test_jobs_that_are_starved_go_until_the_others_have_enough() -> None:
    ran = run(node(BUSY, *jobs()), *BOTH)
    unharmed(ran)
    assert 1 <= len(ran.evictions) <= 6
    assert ran.evictions[0].at > 90, "an average over a minute"
    left = 8 - len(ran.evictions)
    assert ran.be_allowed[-1] >= 0.4 * 2 * left
    assert "request" in ran.evictions[0].why
    assert "best-effort pods have too little CPU" in ran.evictions[0].why


def test_a_short_peak_evicts_nobody() -> None:
    peak = replace(web(), cpu=Constant(4.0) + Spikes(13.0, 1000, 25, 100))
    ran = run(node(peak, *jobs()), *BOTH)
    assert ran.evictions == []


def test_load_near_the_bound_does_not_empty_the_node() -> None:
    """Who comes back is not evicted each time."""
    swings = replace(web(), cpu=Constant(11.0) + Noise(0.5))
    ran = run(node(swings, *jobs(), seconds=600, comes_back=10.0), *BOTH)
    assert len(ran.evictions) <= 10
    assert np.count_nonzero(ran.be_cpu[100:] < 2) < 5


def test_all_cpus_lse_starves_jobs_and_says_so() -> None:
    """Their limit is 20 millicores, not 0: there is a share to reckon (cpu_suppress.go)."""
    alone = replace(web("alone"), cpu=Constant(8.0), start=60.0, cpus="0-31")
    ran = run(node(replace(alone, qos=QoSClass.LSE), *jobs(4)), *BOTH)
    unharmed(ran)
    assert ran.evictions
    assert ran.evictions[0].at > 60


# ---- the other rules


def test_a_node_that_is_too_busy_evicts_who_agreed() -> None:
    asked = slo(cpu_evict=85, cpu_evict_lower=75, evict_priority=5999, cpu_evict_window_seconds=30)
    agreed, others = jobs(4, labels=AGREED), [replace(one, name=f"x{one.name}") for one in jobs(4)]
    pods = replace(web(), cpu=Ramp(1, 6, 60, 70)), *agreed, *others
    ran = run(node(*pods, slo=asked), "cpu_evict")
    unharmed(ran)
    assert 1 <= len(ran.evictions) <= 4
    assert {one.removeprefix("default/")[:4] for one in ran.evicted()} == {"job-"}
    times = [one.at for one in ran.evictions]
    assert len(set(times)) == 1 or np.diff(sorted(set(times))).min() >= 20, "the cool time"


def test_more_cpu_was_promised_than_there_is_now() -> None:
    asked = slo(
        cpu_allocatable_evict=110, cpu_allocatable_evict_lower=100, allocatable_evict_priority=5999
    )
    machine = SimulatedMachine(
        cpus=32, memory=128 * GIB, allocatable={"kubernetes.io/batch-cpu": 10_000}
    )
    ran = run(node(*jobs(8, labels=AGREED), slo=asked, machine=machine), "cpu_allocatable_evict")
    unharmed(ran)
    assert len(ran.evictions) == 3, f"8 × {BATCH} of 10 CPUs"
    unknown = run(node(*jobs(8, labels=AGREED), slo=asked), "cpu_allocatable_evict")
    assert unknown.evictions == []
