"""Best-effort pods are held down by the CPU that the others leave: ``cpu_suppress``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from koord_model.used_threshold import SuppressPolicy
from koord_simulation.node_model.curves import Noise, Ramp, Sine
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.report import direction_changes, report
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import changes, run, said, slo, unharmed
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
    reported = {int(one.at) for one in said(ran)}
    moved = changes(ran.be_allowed)
    assert len(moved) > 10
    assert [second for second in moved if second not in reported] == []
    for one in said(ran):
        if "not known" not in one.outcome and "does not enable" not in one.outcome:
            assert "non-BE pods" in one.outcome
            assert "capacity 32 cores" in one.outcome
    assert ran.be_allowed.min() >= 0.02
