from __future__ import annotations

import numpy as np
import pytest
from koord_model.resctrl import CacheWays
from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.cpu_sharing import CPUSharing
from koord_simulation.node_model.machine import MIB, SimulatedMachine
from koord_simulation.node_model.slowdown import (
    CORE_COST,
    CacheShare,
    Slowdown,
    SlowdownModel,
    shares_of,
)

MACHINE = SimulatedMachine(cpus=8, llc_bytes=12 * MIB, llc_ways=12, bandwidth=10e9)
GROUPS = ("ls", "be")
LS = CacheShare("LS")
BE = CacheShare("BE", CacheWays(0, 50))


def slowed(
    ls: float = 2,
    be: float = 0,
    wants: float = 2 * MIB,
    shares: tuple[CacheShare, ...] = (LS, LS),
    bandwidth: float = 0.0,
) -> Slowdown:
    cgroups = SimulatedCgroups(MACHINE)
    for group in GROUPS:
        cgroups.create(group)
    sharing = CPUSharing(MACHINE, cgroups, GROUPS)
    made = SlowdownModel(
        MACHINE, sharing, [(wants, 0.5, bandwidth), (wants, 0.5, bandwidth)], shares
    )
    return made.step(np.array([ls, be]), [(ls + be) / 8])


def test_only_a_second_busy_thread_of_a_core_slows_down() -> None:
    assert slowed(ls=0.8).times[0] == pytest.approx(1 + CORE_COST * 0.01)
    assert slowed(ls=4, be=4, wants=0).times[0] == pytest.approx(1 + CORE_COST)


def test_neighbours_that_fill_the_cache_slow_down() -> None:
    alone, crowded = slowed(ls=2, be=0), slowed(ls=2, be=6)
    core = (1 + CORE_COST) / (1 + CORE_COST / 16)
    assert crowded.times[0] > 1.05 * core * alone.times[0]
    assert crowded.occupied.sum() == pytest.approx(12 * MIB)


def test_fewer_ways_for_the_neighbours_help() -> None:
    free, held = slowed(be=6), slowed(be=6, shares=(LS, BE))
    assert held.times[0] < free.times[0]
    assert held.times[1] > free.times[1]
    assert held.occupied[1] <= 6 * MIB
    least = slowed(be=6, shares=(LS, CacheShare("BE", CacheWays(99, 100))))
    assert 0 < least.occupied[1] <= 1 * MIB + 1, "one way"


def test_a_full_memory_bus_slows_down_and_limited_bandwidth_helps_the_others() -> None:
    free = slowed(be=6, bandwidth=4e9)
    held = slowed(be=6, bandwidth=4e9, shares=(LS, CacheShare("BE", mb=20)))
    assert free.times[0] > slowed(be=6, bandwidth=0).times[0]
    assert held.times[0] < free.times[0]
    assert held.moved[1] == pytest.approx(0.2 * free.moved[1])


def test_cgroups_in_no_group_may_use_the_whole_cache() -> None:
    assert shares_of(GROUPS, {"be": BE}) == [CacheShare(), BE]
