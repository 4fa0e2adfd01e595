"""All strategies at once, on a node where much goes wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_model.blkio_qos import BlkIOQoS, BlockQoS
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.memory_qos import MemoryQoS
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_model.system_strategy import SystemStrategy
from koord_model.used_threshold import SuppressPolicy, UsedThreshold
from koord_simulation.files import strategies
from koord_simulation.node_model.curves import Noise, Sine, Spikes
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.run.simulation import Simulation
from koord_simulation.scenario.scenario import Scenario
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.strategy import StrategyMode, owner
from koordlet.qos_manager.strategy_table import select_enabled

from tests.simulation.golden.runs import AGREED, all_steps, knobs, simulation, unharmed
from tests.simulation.stories import job, story, web

EVERY = tuple(
    one.name for one in select_enabled(asdict(KoordletSettings()), dict.fromkeys(DEFAULTS, True))[0]
)
FILES = [name for name, knob in KNOBS.items() if knob.where is PlaceKind.CGROUP]
THRESHOLD = UsedThreshold(
    enable=True,
    memory_evict=80,
    memory_evict_lower=70,
    cpu_evict_satisfaction_lower=40,
    cpu_evict_satisfaction_upper=60,
    cpu_evict=90,
    cpu_evict_lower=80,
    evict_priority=5999,
    cpu_allocatable_evict=200,
    cpu_allocatable_evict_lower=150,
    memory_allocatable_evict=200,
    memory_allocatable_evict_lower=150,
    allocatable_evict_priority=5999,
)
BE_CLASS = ClassQoS(
    resctrl=ResctrlQoS(enable=True, cat_end=30),
    memory=MemoryQoS(enable=True, wmark_ratio=95, throttling=80),
    blkio=BlkIOQoS(True, (BlockQoS("/dev/none", read_bps=MIB),)),
)
LS_CLASS = ClassQoS(memory=MemoryQoS(enable=True, min_limit=50, low_limit=80))
ALL = NodeSLO(
    threshold=THRESHOLD,
    burst=CPUBurst(BurstPolicy.AUTO, share_pool_threshold=60),
    system=SystemStrategy(min_free_kbytes_factor=100, watermark_scale_factor=150),
    classes={QoSClass.BE: BE_CLASS, QoSClass.LS: LS_CLASS},
    strategies={"threshold_evict": {"thresholds": [{"signal": "memory.available", "percent": 15}]}},
)
LIMITED = {"cpu": 2000, "memory": 6 * GIB}


def node(
    version: int = 2, policy: SuppressPolicy = SuppressPolicy.CPUSET, **more: object
) -> Scenario:
    curve = Sine(0.7, 0.4, 200) + Noise(0.05) + Spikes(1.0, 70, 10, 20)
    services = [
        replace(web(f"web-{n}"), cpu=curve, limits=LIMITED, page_cache=GIB, burstiness=0.5)
        for n in range(5)
    ]
    pinned = [
        replace(web("lse", cpu=1.5), qos=QoSClass.LSE, cpus="0-1,8-9"),
        replace(web("lsr", cpu=1.5), qos=QoSClass.LSR, cpus="2-3,10-11", start=40.0),
    ]
    jobs = [
        replace(
            job(f"job-{n}", 4.0, containers=2, labels=AGREED), start=7.0 * n, end=150.0 + 30 * n
        )
        for n in range(4)
    ]
    leak = job("leak", 1.0, leak=80 * MIB)
    given = {
        "machine": SimulatedMachine(cpus=16, memory=32 * GIB, cgroup_version=version, swap=2 * GIB),
        "slo": replace(ALL, threshold=replace(THRESHOLD, cpu_suppress_policy=policy)),
        "comes_back": 30.0,
        **more,
    }
    return story(*services, *pinned, *jobs, leak, seconds=400, **given)


ONE_AFTER_ANOTHER = (
    Fault(FaultKind.MISSING, 40, 60, "*"),
    Fault(FaultKind.MISSING, 70, 100, "pod_*"),
    Fault(FaultKind.STUCK, 90, 130, "node_*"),
    Fault(FaultKind.CLOCK, 110, 140, seconds=-5000),
    Fault(FaultKind.CLOCK, 150, 180, seconds=5000),
    Fault(FaultKind.PODS_UNKNOWN, 160, 190),
    Fault(FaultKind.NO_NODE_INFO, 200, 220),
    Fault(FaultKind.RESTART, 230),
    Fault(FaultKind.RESTART, 231),
    Fault(FaultKind.NO_SLO, 250, 280),
    Fault(FaultKind.MISSING, 300, 310, "container_*"),
)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("policy", list(SuppressPolicy))
def test_whatever_goes_wrong_no_strategy_fails_and_no_write_is_refused(
    version: int, policy: SuppressPolicy
) -> None:
    going = simulation(node(version, policy, faults=ONE_AFTER_ANOTHER), *EVERY)
    all_steps(going, 400)
    assert going.run.problems == []
    # While nobody can say which pods run, one that is gone is still wished for.
    gone = [one for at, one in going.run.refused if 160 <= at < 190]
    assert {one.why for one in gone} <= {"there is no such group"}
    assert len(gone) == len(going.run.refused)
    spoke = {one.strategy for one in going.run.said}
    # One has nobody to name, of the other no service asks for a weight.
    assert set(EVERY) - spoke <= {"interference", "cpu_weight"}


def test_each_knob_has_one_owner_at_a_time() -> None:
    """Several writers of one cgroup: K#1214, K#546, K#395, K#2306.

    Strategies that want the same knob of the same group would be arbitrated; these never do.
    """
    going = simulation(node(), *EVERY)
    for _ in range(300):
        going.step()
        wanted = Counter(
            one.target for desired in going.cgroups.desired.values() for one in desired
        )
        assert [target for target, count in wanted.items() if count > 1] == []
    assert owner("cpu_suppress") in going.cgroups.desired


def test_all_is_put_back_when_nothing_is_asked_any_more() -> None:
    steady = node(slo_changes={200.0: NodeSLO()})
    pods = tuple(replace(one, start=0.0, end=1e9, leak=0.0) for one in steady.pods)
    names = [name for name in EVERY if not name.endswith("evict")]
    going = simulation(replace(steady, pods=pods), *names)
    before = knobs(going, FILES)
    all_steps(going, 150)
    assert knobs(going, FILES) != before
    all_steps(going, 60)
    assert knobs(going, FILES) == before


def test_shadows_change_nothing() -> None:
    scenario = replace(node(), strategies=dict.fromkeys(EVERY, StrategyMode.SHADOW))
    shadows = Simulation(scenario, strategies(EVERY))
    bare = Simulation(scenario.only(), ())
    all_steps(shadows, 200)
    all_steps(bare, 200)
    assert np.array_equal(shadows.run.p99[:200], bare.run.p99[:200], equal_nan=True)
    assert shadows.run.said
    assert shadows.run.evictions == []


def test_an_empty_node_is_quiet() -> None:
    going = simulation(replace(node(), pods=()), *EVERY)
    all_steps(going, 60)
    unharmed(going.run)
    assert [one for one in going.run.said if one.at > 15] == []
