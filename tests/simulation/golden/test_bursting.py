"""Pods that run into their CPU limit get more while there is room: ``cpu_burst``."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.node_slo import NodeSLO
from koord_simulation.node_model.curves import Constant, DemandCurve, Noise, Spikes
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import Simulation, simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import run, said, simulation, unharmed
from tests.simulation.stories import story, web

NAME = "cpu_burst"
QUOTA, BURST, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.cfs_period_us"
BASE = 100_000
SPIKY = Constant(0.5) + Spikes(1.5, 120, 20, 30) + Noise(0.03)


def asked(policy: BurstPolicy = BurstPolicy.AUTO, **more: int) -> NodeSLO:
    return NodeSLO(burst=CPUBurst(policy, **{"share_pool_threshold": 70, **more}))


def api(name: str, cpu: DemandCurve = SPIKY, **more: object) -> Workload:
    """A pod with a limit of one CPU."""
    given = {"limits": {"cpu": 1000, "memory": 4 * GIB}, "burstiness": 0.5, **more}
    return replace(web(name), cpu=cpu, requests={"cpu": 1000, "memory": GIB}, **given)  # type: ignore[arg-type]


def apis(count: int, cpu: DemandCurve = SPIKY) -> list[Workload]:
    return [api(f"api-{number}", cpu) for number in range(count)]


def node(*pods: Workload, seconds: int = 300, **more: object) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=16, memory=64 * GIB), "slo": asked(), **more}
    return story(*pods, seconds=seconds, **given)


def quotas(going: Simulation) -> dict[str, int]:
    """The quotas of containers that have one, now."""
    groups = (one for one in going.cgroups.below("kubepods", "cpu") if one.endswith("-c0"))
    found = {group: int(going.cgroups.now(group, QUOTA) or 0) for group in groups}
    return {group: quota for group, quota in found.items() if quota > 0}


def second_by_second(going: Simulation, seconds: int) -> list[dict[str, int]]:
    found = []
    for _ in range(seconds):
        going.step()
        found.append(quotas(going))
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_spikes_pass_a_limit_while_the_node_has_room(version: int) -> None:
    machine = SimulatedMachine(cpus=16, memory=64 * GIB, cgroup_version=version)
    held = node(*apis(4), machine=machine, seconds=400)
    ran, free = run(held, NAME), simulate(held)
    unharmed(ran)
    mean = [np.nanmean(one.throttled) for one in (ran, free)]
    assert mean[0] < 0.3 * mean[1]
    assert np.nanmean(ran.p99_of("api-0")) < 0.2 * np.nanmean(free.p99_of("api-0"))
    assert said(ran, "may use more CPU than its limit")


def test_a_node_that_fills_takes_back_a_few_at_a_time_and_the_greediest_first() -> None:
    """Koordinator resets all bursting pods together at the threshold: K#2164.

    Then all that were spiking are throttled in the same second, the pool is idle, and all burst
    anew.
    """
    greedy = [api(f"greedy-{n}", Constant(1.6)) for n in range(2)]
    modest = [api(f"modest-{n}", Constant(1.0)) for n in range(6)]
    other = replace(web("other"), cpu=Constant(0.5) + Spikes(1.0, 1000, 200, 100, once=True))
    going = simulation(node(*greedy, *modest, other, slo=asked(share_pool_threshold=90)), NAME)
    found = second_by_second(going, 250)
    unharmed(going.run)
    assert all(one > BASE for one in found[90].values())
    fell = [sum(now[one] < before[one] for one in now) for before, now in pairwise(found)]
    assert sum(fell[100:])
    assert max(fell) <= 2, "a quarter of eight"
    first = next(n for n, count in enumerate(fell) if count and n >= 100)
    lowered = [one for one in found[first] if found[first + 1][one] < found[first][one]]
    assert all("greedy" in one for one in lowered)
    # Most of the modest keep what they were given.
    assert sum(one > BASE for name, one in found[200].items() if "modest" in name) >= 4
    assert said(going.run, "raised quotas come down, greediest first")


def test_a_raised_quota_comes_down_without_a_refused_write() -> None:
    """A smaller quota below a burst that is set is EINVAL on cgroup v2: K#2778."""
    gone = Fault(FaultKind.NO_SLO, 200, 220)
    pods = [api(f"api-{n}", Constant(0.4) + Spikes(2, 1000, 60, 20, once=True)) for n in range(3)]
    for version in (1, 2):
        machine = SimulatedMachine(cpus=16, memory=64 * GIB, cgroup_version=version)
        strategies = {NAME: {"calm_seconds": 20}}
        asks = replace(asked(), strategies=strategies)
        going = simulation(node(*pods, slo=asks, machine=machine, faults=(gone,)), NAME)
        most = 0
        for _ in range(300):
            going.step()
            for group in going.cgroups.below("kubepods", "cpu"):
                quota = int(going.cgroups.now(group, QUOTA) or 0)
                if quota > 0:
                    assert int(going.cgroups.now(group, BURST) or 0) <= quota
            most = max(most, *quotas(going).values())
        unharmed(going.run)
        assert most > BASE
        assert set(quotas(going).values()) == {BASE}


@pytest.mark.parametrize("version", [1, 2])
def test_no_container_has_more_than_its_pod_in_any_second(version: int) -> None:
    """A pod's quota is widened before its containers' and narrowed after: K#2047, K#2693."""
    machine = SimulatedMachine(cpus=16, memory=64 * GIB, cgroup_version=version)
    limits = {"cpu": 3000, "memory": 4 * GIB}
    pods = [
        api(f"api-{n}", Constant(1) + Spikes(6, 90, 30), containers=3, limits=limits)
        for n in range(3)
    ]
    asks = replace(asked(), strategies={NAME: {"calm_seconds": 10}})
    going = simulation(node(*pods, slo=asks, machine=machine), NAME)
    moved = 0
    before: dict[str, int] = {}
    for _ in range(300):
        going.step()
        for group in quotas(going):
            above = group.rpartition("/")[0]
            below = going.cgroups.below(above, "cpu")
            inner = [int(going.cgroups.now(one, QUOTA) or 0) for one in below]
            assert max(inner) <= int(going.cgroups.now(above, QUOTA) or 0)
        moved += quotas(going) != before
        before = quotas(going)
    assert moved > 10
    unharmed(going.run)
