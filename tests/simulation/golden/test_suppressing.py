"""Best-effort pods are held down by the CPU that the others leave: ``cpu_suppress``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from koord_model import cpuset
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.used_threshold import SuppressPolicy
from koord_simulation.node_model.curves import Constant, Noise, Ramp, Sine, Spikes
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.report import direction_changes, report
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import (
    BE,
    all_steps,
    changes,
    run,
    said,
    simulation,
    slo,
    unharmed,
)
from tests.simulation.stories import job, story, web

NAME = "cpu_suppress"
CPUSET, QUOTA = "cpuset.cpus", "cpu.cfs_quota_us"
NODE = SimulatedMachine(cpus=32, memory=128 * GIB)
POLICIES = list(SuppressPolicy)


def node(*pods: Workload, seconds: int = 300, **more: object) -> Scenario:
    given = {"machine": NODE, "slo": slo(cpu_suppress=65), **more}
    return story(*pods, seconds=seconds, **given)


def jobs(cores: float = 30.0) -> Workload:
    return job(cpu=cores, containers=4)


def services(mean: float, swing: float = 0.0, noise: float = 0.25) -> Workload:
    return replace(web(), cpu=Sine(mean, swing, 600) + Noise(noise))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_node_stays_at_its_threshold_while_services_come_and_go(
    policy: SuppressPolicy, version: int
) -> None:
    """What the threshold leaves is used, no more; the services are faster for it."""
    pod = replace(web(), cpu=Ramp(2, 12, 60, 180) + Ramp(0, -10, 240, 300))
    asked = slo(cpu_suppress=65, cpu_suppress_policy=policy)
    held = node(pod, jobs(), slo=asked, machine=replace(NODE, cgroup_version=version), seconds=420)
    ran, free = run(held, NAME), simulate(held)
    unharmed(ran)
    # 65 % of 32 CPUs; a CPU that is not whole is rounded up, and 2 % are the dead band.
    assert ran.cpu[30:].max() < 20.8 + 1 + 0.64 + 0.3
    assert np.all(ran.be_cpu[1:] <= ran.be_allowed[:-1] + 1e-6)
    assert ran.be_allowed[200] < 9
    assert ran.be_allowed[-1] > 17, "what was taken comes back"
    assert np.nanmean(ran.p99_of("web")) < 0.85 * np.nanmean(free.p99_of("web"))
    assert report(ran).be_kept_percent > 30


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cpus", [32, 96])
def test_load_that_trembles_does_not_make_it_swing(policy: SuppressPolicy, cpus: int) -> None:
    """A CPU more and one less all the time would move tasks, and fill the journal."""
    part = cpus / 32
    asked = slo(cpu_suppress=65, cpu_suppress_policy=policy)
    machine = replace(NODE, cpus=cpus, llc_bytes=round(48 * MIB * part), bandwidth=100e9 * part)
    pods = services(8 * part, 2 * part, 0.25 * part**0.5), jobs(30 * part)
    ran = run(node(*pods, slo=asked, machine=machine, seconds=600), NAME)
    # Nine minutes; a quota moves no tasks, and follows in smaller steps.
    most = 8 if policy is SuppressPolicy.CPUSET else 16
    assert direction_changes(ran.be_allowed[60:]) <= most
    assert len(said(ran)) < 60


def test_best_effort_pods_do_not_starve() -> None:
    """However busy the others are, they keep two CPUs, or the part that is asked for."""
    busy = node(replace(web(), cpu=Constant(40.0)), jobs(), seconds=60)
    least = run(busy, NAME)
    assert set(least.be_allowed) == {2.0}
    assert least.be_cpu[-1] > 0
    floor = run(replace(busy, slo=slo(cpu_suppress_min=25)), NAME)
    assert set(floor.be_allowed) == {8.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_all_cpus_belong_to_lse_pods(policy: SuppressPolicy) -> None:
    """Nothing is divided by the CPUs that are left (cpu_suppress.go)."""
    pods = (
        replace(web("alone"), qos=QoSClass.LSE, cpus="0-31"),
        replace(web("later"), qos=QoSClass.LSE, cpus="0-15", start=120.0),
    )
    first = replace(pods[0], end=100.0)
    asked = slo(cpu_suppress_policy=policy)
    ran = run(node(first, pods[1], jobs(), slo=asked, seconds=160), NAME)
    unharmed(ran)
    assert np.allclose(ran.be_allowed[:99], 0.02)
    assert ran.be_allowed[101:119].max() > 10
    assert said(ran, "no CPU is left to best-effort pods")
    assert "LSE pods and reservations have all" in said(ran)[0].outcome


def test_lse_cpus_are_left_alone_and_lsr_cpus_shared_in_proportion() -> None:
    pods = (
        replace(web("lse"), qos=QoSClass.LSE, cpus="0-3,16-19"),
        replace(web("lsr"), qos=QoSClass.LSR, cpus="4-7,20-23"),
        jobs(),
    )
    going = simulation(node(*pods), NAME)
    all_steps(going, 60)
    cpus = cpuset.parse(str(going.cgroups.now(BE, CPUSET)))
    assert not cpus & cpuset.parse("0-3,16-19")
    assert len(cpus & cpuset.parse("4-7,20-23")) == len(cpus) * 8 // 24


def test_a_node_without_batch_pods_is_ready_for_them() -> None:
    """The first one that comes is held down from its first second on."""
    ran = run(node(replace(web(), cpu=Constant(10.0)), replace(jobs(), start=60.0)), NAME)
    assert set(ran.be_cpu[:60]) == {0.0}
    assert "(there are none now)" in said(ran)[0].outcome
    assert ran.be_cpu[60] <= 12


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("metrics", ["node_cpu_usage", "pod_cpu_usage", "*"])
def test_without_metrics_nothing_moves_and_it_is_said(metrics: str, policy: SuppressPolicy) -> None:
    """Koordinator's suppression was silently without effect: K#2723, K#1056, K#696."""
    missing = Fault(FaultKind.MISSING, 60, 120, metrics)
    pod = replace(web(), cpu=Constant(4.0) + Spikes(8, 1000, 30, 85, once=True))
    asked = slo(cpu_suppress_policy=policy)
    ran = run(node(pod, jobs(), slo=asked, faults=(missing,), seconds=150), NAME)
    unharmed(ran)
    # Newest values count for 10 s.
    assert len(set(ran.be_allowed[71:120])) == 1
    [first] = [one for one in said(ran, "not known") if one.at > 1]
    assert 60 < first.at <= 71
    assert "best-effort pods" in first.outcome
    assert [one for one in said(ran) if 120 <= one.at <= 122]


@pytest.mark.parametrize("metrics", ["pod_*", "node_*"])
def test_metrics_that_stand_still_do_no_more_than_hold_it(metrics: str) -> None:
    stuck = Fault(FaultKind.STUCK, 60, 120, metrics)
    ran = run(node(replace(web(), cpu=Constant(8.0)), jobs(), faults=(stuck,)), NAME)
    assert len(set(ran.be_allowed[30:])) == 1


def test_the_clock_does_not_matter() -> None:
    """A wall clock that jumps, ahead or back, changes nothing."""
    pods = services(8, 4), jobs()
    jumps = tuple(
        Fault(FaultKind.CLOCK, at, at + 60, seconds=by)
        for at, by in ((60, 86_400.0), (150, -86_400.0), (240, 40.0))
    )
    with_jumps, without = run(node(*pods, faults=jumps), NAME), run(node(*pods), NAME)
    assert np.array_equal(with_jumps.be_allowed, without.be_allowed)


def test_no_node_slo_holds_nobody_down_and_its_return_does() -> None:
    """And it is said that nothing is done: K#2723."""
    gone = Fault(FaultKind.NO_SLO, 60, 120)
    ran = run(node(replace(web(), cpu=Constant(8.0)), jobs(), faults=(gone,)), NAME)
    unharmed(ran)
    assert set(ran.be_allowed[60:120]) == {32.0}
    assert [one.at for one in said(ran, "does not enable it")] == [60]
    assert ran.be_allowed[121] < 14


def test_a_restart_moves_nothing() -> None:
    """What the last run left is what the next begins with: K#1056."""
    again = tuple(Fault(FaultKind.RESTART, at) for at in range(60, 300, 7))
    ran = run(node(replace(web(), cpu=Constant(8.0)), jobs(), faults=again), NAME)
    assert len(set(ran.be_allowed[30:])) == 1


def test_a_list_of_pods_that_is_lost_moves_nothing() -> None:
    lost = Fault(FaultKind.PODS_UNKNOWN, 60, 120)
    ran = run(node(services(8), jobs(), faults=(lost,), seconds=150), NAME)
    assert len(set(ran.be_allowed[60:120])) == 1
    assert said(ran, "which pods run: not known")


@pytest.mark.parametrize("version", [1, 2])
def test_every_best_effort_group_has_what_was_decided_whoever_comes(version: int) -> None:
    """Pods that come meanwhile are held as those that were there: K#696, K#1056."""
    late = tuple(
        replace(job(f"late-{at}", cpu=4.0), start=float(at), end=at + 90.0)
        for at in range(20, 100, 7)
    )
    going = simulation(
        node(services(6, 3), jobs(8), *late, machine=replace(NODE, cgroup_version=version)), NAME
    )
    for _ in range(200):
        going.step()
        whole = going.cgroups.now(BE, CPUSET)
        for group in going.cgroups.below(BE, "cpuset"):
            assert going.cgroups.now(group, CPUSET) == whole
        assert going.run.be_cpu[going.second - 1] <= len(cpuset.parse(str(whole))) + 1e-6 or (
            going.run.be_allowed[going.second - 1] != going.run.be_allowed[going.second - 2]
        )
    unharmed(going.run)


def test_a_value_that_another_writer_sets_is_kept_for_later() -> None:
    """Kubelet and koordlet write the same cpuset: K#1214, K#546, K#395.

    The kubelet's value is what the group goes back to; until then the one owner of the file
    decides, and does not write in turns with it.
    """
    gone = Fault(FaultKind.NO_SLO, 100)
    going = simulation(node(replace(web(), cpu=Constant(12.0)), jobs(), faults=(gone,)), NAME)
    all_steps(going, 30)
    [container, *_] = [one for one in going.cgroups.below(BE, "cpuset") if one.endswith("-c0")]
    held = going.cgroups.now(container, CPUSET)
    going.cgroups.put(container, CPUSET, "0-7")
    for _ in range(60):
        going.step()
        assert going.cgroups.now(container, CPUSET) == held
    writes = going.cgroups.changes
    all_steps(going, 9)
    assert going.cgroups.changes == writes
    all_steps(going, 5)
    assert going.cgroups.now(container, CPUSET) == "0-7"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_change_is_a_decision_with_its_numbers(policy: SuppressPolicy) -> None:
    """No value jumps unexplained, and none to zero: K#1906."""
    asked = slo(cpu_suppress_policy=policy)
    pods = services(10, 8, 0.5), jobs(), replace(job("late", cpu=5.0), start=100.0, end=200.0)
    faults = (
        Fault(FaultKind.MISSING, 220, 250, "*"),
        Fault(FaultKind.RESTART, 300),
        Fault(FaultKind.NO_SLO, 400, 420),
    )
    ran = run(node(*pods, slo=asked, faults=faults, seconds=600), NAME)
    told = {int(one.at) for one in said(ran)}
    moved = changes(ran.be_allowed)
    assert len(moved) > 10
    assert [second for second in moved if second not in told] == []
    for one in said(ran):
        if "not known" not in one.outcome and "does not enable" not in one.outcome:
            assert "non-BE pods" in one.outcome
            assert "capacity 32 cores" in one.outcome
    assert ran.be_allowed.min() >= 0.02


def test_a_threshold_that_changes_holds_from_that_second_on() -> None:
    stricter = {60.0: slo(cpu_suppress=40), 120.0: NodeSLO()}
    ran = run(node(replace(web(), cpu=Constant(8.0)), jobs(), slo_changes=stricter), NAME)
    assert (ran.be_allowed[59], ran.be_allowed[60], ran.be_allowed[120]) == (11, 3, 32)


def test_a_shadow_says_what_it_would_do_and_does_nothing() -> None:
    asked = replace(slo(), strategies={NAME: {"mode": "shadow"}})
    ran = run(node(services(8), jobs(), slo=asked, seconds=60), NAME)
    assert set(ran.be_allowed) == {32.0}
    assert said(ran, "best-effort pods run on")
