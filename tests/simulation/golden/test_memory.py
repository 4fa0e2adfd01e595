"""Memory that is protected, given back and kept free, and shares of the cache.

``memory_qos``, ``memory_offload``, ``system_config``, ``resctrl``, ``blkio``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_model.blkio_qos import BlkIOQoS, BlockQoS
from koord_model.memory_qos import MemoryQoS
from koord_model.node_info import LocalStorage
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_model.system_strategy import SystemStrategy
from koord_simulation.node_model.curves import Constant, Ramp
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario
from koordlet.qos_manager.strategies import resctrl

from tests.simulation.golden.runs import (
    BE,
    all_steps,
    knobs,
    run,
    said,
    simulation,
    steps,
    unharmed,
)
from tests.simulation.stories import job, story, web
from tests.support.fake_resctrl import FakeResctrl


def node(*pods: Workload, seconds: int = 200, **more: Any) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=16, memory=32 * GIB), **more}
    return story(*pods, seconds=seconds, **given)


def classes(**by_name: ClassQoS) -> NodeSLO:
    return NodeSLO(classes={QoSClass(name): one for name, one in by_name.items()})


# ---- memory_qos

PROTECTED = classes(LS=ClassQoS(memory=MemoryQoS(enable=True, min_limit=50, low_limit=100)))
SERVICE = replace(
    web(cpu=1.0),
    memory=Constant(6 * GIB),
    page_cache=4 * GIB,
    cold=0.1,
    requests={"cpu": 1000, "memory": 10 * GIB},
)
GROWS = replace(job(cpu=1.0), memory=Ramp(4 * GIB, 12 * GIB, 20, 60), page_cache=14 * GIB, cold=0.1)


def test_the_memory_of_a_service_is_not_reclaimed_for_a_job() -> None:
    held = node(SERVICE, GROWS, slo=PROTECTED)
    ran, free = run(held, "memory_qos"), simulate(held)
    unharmed(ran)
    assert ran.held[-1, 0] > free.held[-1, 0] + 0.5 * GIB
    assert np.nanmean(ran.p99_of("web")[100:]) < np.nanmean(free.p99_of("web")[100:])
    assert said(ran, "protected")


def test_what_was_protected_is_put_back() -> None:
    names = ("memory.min", "memory.low", "memory.high")
    gone = Fault(FaultKind.NO_SLO, 100)
    going = simulation(node(SERVICE, GROWS, slo=PROTECTED, faults=(gone,)), "memory_qos")
    before = knobs(going, names)
    all_steps(going, 90)
    assert knobs(going, names) != before
    all_steps(going, 20)
    assert knobs(going, names) == before


def test_a_class_that_is_not_enabled_is_left_alone() -> None:
    going = simulation(node(SERVICE, GROWS), "memory_qos")
    before = going.cgroups.changes
    all_steps(going, 60)
    assert going.cgroups.changes == before


# ---- memory_offload

COLD = replace(
    job(cpu=1.0),
    memory=Constant(4 * GIB),
    page_cache=8 * GIB,
    cold=0.6,
    requests={"kubernetes.io/batch-cpu": 1000, "kubernetes.io/batch-memory": 6 * GIB},
)


@pytest.mark.parametrize("swap", [0, 8 * GIB], ids=["no swap", "swap"])
def test_cold_memory_is_given_back_until_it_would_be_felt(swap: int) -> None:
    machine = SimulatedMachine(cpus=16, memory=32 * GIB, swap=swap)
    held = node(web(cpu=1.0), COLD, machine=machine, seconds=2400)
    ran, free = run(held, "memory_offload"), simulate(held)
    unharmed(ran)
    freed = free.held[-1, 1] - ran.held[-1, 1]
    assert freed > 1.5 * GIB
    assert ran.held[-1, 1] > 3 * GIB, "half of its request, whatever happens"
    assert ran.kills == []
    assert np.nanmean(ran.p99_of("web")) == pytest.approx(np.nanmean(free.p99_of("web")), rel=0.02)
    assert said(ran, "memory that it does not miss is reclaimed")


def test_a_pod_that_waits_for_memory_is_let_be() -> None:
    """All of it is needed: what is reclaimed comes back at once."""
    hot = replace(COLD, cold=0.0)
    ran = run(node(hot, seconds=1200), "memory_offload")
    assert ran.held[600:, 0].min() > 0.8 * 12 * GIB


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            {"faults": (Fault(FaultKind.MISSING, 0, metrics="pod_psi"),)},
            "memory pressure is not known",
        ),
        (
            {"faults": (Fault(FaultKind.MISSING, 0, metrics="pod_memory*"),)},
            "memory use is not known",
        ),
        (
            {"machine": SimulatedMachine(cpus=16, memory=32 * GIB, cgroup_version=1)},
            "cgroup v1 has no",
        ),
    ],
    ids=["pressure", "use", "v1"],
)
def test_where_it_cannot_know_it_asks_for_nothing(more: dict[str, Any], line: str) -> None:
    held = node(COLD, seconds=300, **more)
    ran, free = run(held, "memory_offload"), simulate(held)
    unharmed(ran)
    assert np.array_equal(ran.held, free.held)
    assert said(ran, line)


# ---- system_config


def test_watermarks_are_set_and_put_back() -> None:
    asked = NodeSLO(system=SystemStrategy(min_free_kbytes_factor=100, watermark_scale_factor=150))
    gone = Fault(FaultKind.NO_SLO, 50)
    going = simulation(node(SERVICE, slo=asked, faults=(gone,)), "system_config")
    all_steps(going, 40)
    now = going.cgroups.now
    assert now("vm.min_free_kbytes", "sysctl") == str(32 * GIB // 1024 // 100)
    assert now("vm.watermark_scale_factor", "sysctl") == "150"
    all_steps(going, 30)
    assert now("vm.watermark_scale_factor", "sysctl") == "10"
    unharmed(going.run)


def test_a_setting_that_would_cost_the_machine_is_left_alone_and_named() -> None:
    asked = NodeSLO(system=SystemStrategy(min_free_kbytes_factor=9000, watermark_scale_factor=9))
    ran = run(node(SERVICE, slo=asked, seconds=20), "system_config")
    unharmed(ran)
    assert said(ran, "minFreeKbytesFactor is 9000; expected at most")
    assert said(ran, "9 is out of range; expected 10 to 400")


# ---- resctrl

FEWER_WAYS = classes(BE=ClassQoS(resctrl=ResctrlQoS(enable=True, cat_end=25, mba=30)))
EATER = replace(job(cpu=12.0, containers=4), llc_bytes=6 * MIB, bandwidth=12e9)
READER = replace(web(cpu=3.0), llc_sensitivity=1.5)


def test_a_job_that_fills_the_cache_gets_fewer_ways() -> None:
    held = node(READER, EATER, slo=FEWER_WAYS)
    ran, free = run(held, "resctrl"), simulate(held)
    unharmed(ran)
    assert np.nanmean(ran.p99_of("web")) < 0.8 * np.nanmean(free.p99_of("web"))
    assert said(ran, "pods of class BE may use")


def test_a_node_without_resctrl_says_so() -> None:
    machine = SimulatedMachine(cpus=16, memory=32 * GIB, resctrl=False)
    ran = run(node(READER, EATER, slo=FEWER_WAYS, machine=machine, seconds=30), "resctrl")
    assert [one.at for one in said(ran, "this node has no resctrl")] == [0]


def test_schemata_are_written_when_they_change_and_not_each_second() -> None:
    """Koordinator rewrites them each second: resctrl_reconcile.go."""
    slower = replace(
        FEWER_WAYS, classes={QoSClass.BE: ClassQoS(resctrl=ResctrlQoS(True, 0, 50, 30))}
    )
    going = simulation(node(READER, EATER, slo=FEWER_WAYS, slo_changes={60.0: slower}), "resctrl")
    fake = FakeResctrl()
    groups = ResctrlGroups(fake, record=lambda *change: None)
    memory: object = None
    counts = []
    for view in steps(going, 120):
        plan = resctrl.plan(view, resctrl.settings(view.slo), memory)
        memory = plan.memory
        groups.level([Tenant(one.limits, list) for one in plan.caches], {})
        counts.append(len(fake.writes))
    assert counts[0] > 0
    assert len(set(counts[:60])) == 1
    assert counts[60] > counts[59]
    assert len(set(counts[60:])) == 1


# ---- blkio


class WithDisk(SimulatedMachine):
    """A machine that has a disk."""

    @property
    def facts(self) -> tuple[object, ...]:
        return (*super().facts, LocalStorage({"/dev/vdb": "253:16"}))


BLOCKS = (BlockQoS("/dev/vdb", read_bps=10 * MIB), BlockQoS("/dev/none", write_iops=9))
SLOW_READS = classes(BE=ClassQoS(blkio=BlkIOQoS(True, BLOCKS)))
READS = ("blkio.throttle.read_bps_device",)


def test_reads_of_jobs_are_limited_on_disks_that_are_there_and_others_are_named() -> None:
    machine = WithDisk(cpus=16, memory=32 * GIB)
    gone = Fault(FaultKind.NO_SLO, 50)
    going = simulation(
        node(READER, EATER, slo=SLOW_READS, machine=machine, faults=(gone,)), "blkio"
    )
    before = knobs(going, READS)
    all_steps(going, 40)
    written = {place for place, text in knobs(going, READS).items() if text != before[place]}
    assert written == {(BE, READS[0])}
    assert "10485760" in str(going.cgroups.now(BE, READS[0]))
    assert said(going.run, "/dev/none left alone: no such device here")
    all_steps(going, 20)
    assert knobs(going, READS) == before
    unharmed(going.run)


def test_while_the_disks_are_not_known_nothing_is_written() -> None:
    going = simulation(node(READER, EATER, slo=SLOW_READS), "blkio")
    before = going.cgroups.changes
    all_steps(going, 30)
    assert going.cgroups.changes == before
    [one] = going.run.said
    assert "the node's disks are not known yet" in one.outcome
