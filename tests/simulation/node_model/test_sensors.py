from __future__ import annotations

import math

import pytest
from koord_simulation.node_model.curves import Constant
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.run.simulation import Simulation
from koordlet.metric_cache.core.metric_kinds import KINDS

from tests.simulation.stories import job, story, web

WEB, JOB = "uid-default-web", "uid-default-job"


def after(seconds: int, *faults: Fault, **machine: object) -> Simulation:
    made = SimulatedMachine(**{"cpus": 8, "memory": 16 * GIB, "numa_nodes": 2, **machine})  # type: ignore[arg-type]
    pods = (web(cpu=1, limits={"cpu": 1500}), job(cpu=2, containers=2, page_cache=GIB))
    found = Simulation(story(*pods, seconds=200, machine=made, faults=faults), ())
    for _ in range(seconds):
        found.step()
    return found


def test_sums_are_sums_of_their_parts() -> None:
    found = after(5).measured
    value = found.value
    pods = found.total("pod_cpu_usage")
    assert pods is not None
    assert pods == pytest.approx(found.total("container_cpu_usage"))
    assert value("node_cpu_usage") == pytest.approx(pods + 0.5)
    assert value("sys_cpu_usage") == pytest.approx(0.5)
    assert found.total("node_numa_cpu_usage") == pytest.approx(value("node_cpu_usage"))
    assert value("node_be", "cpu", "usage") == pytest.approx(2000)
    assert value("node_be", "cpu", "request") == 2000
    assert value("node_be", "cpu", "real-limit") == 8000
    memory = found.total("pod_memory_usage")
    assert value("node_memory_usage") == memory + 2 * GIB  # type: ignore[operator]
    cached = value("pod_memory_usage_with_page_cache", JOB)
    assert cached == value("pod_memory_usage", JOB) + GIB  # type: ignore[operator]


def test_the_limit_of_best_effort_pods_is_the_least_of_cpus_and_quota() -> None:
    found = after(2)
    found.cgroups.put("kubepods/besteffort", "cpuset.cpus", "0-4")
    found.step()
    assert found.sensors.be_limit == 5000
    found.cgroups.put("kubepods/besteffort", "cpu.cfs_quota_us", 150_000)
    found.step()
    assert found.measured.value("node_be", "cpu", "real-limit") == 1500


def test_throttling_is_measured_of_those_that_have_a_quota() -> None:
    found = after(61).measured
    assert set(found.series("pod_cpu_throttled")) == {(WEB,)}
    window = found.windows("container_cpu_throttled", 60)[WEB, "web-c0"]
    assert window.avg == pytest.approx(0.07, abs=0.03)
    assert (window.most, window.last * 10) == (0.1, round(window.last * 10)), "whole periods of ten"


def test_what_is_measured_are_kinds_with_their_labels() -> None:
    found = after(121, tells_cold=True).measured
    seen = 0
    for name, kind in KINDS.items():
        for labels in found.windows(name, 600):
            seen += 1
            assert len(labels) == len(kind.labels), name
    assert seen > 80


def test_cold_memory_is_reported_by_machines_that_can() -> None:
    assert after(11).measured.series("pod_memory_cold_page_size") == {}
    found = after(11, tells_cold=True).measured
    assert found.value("pod_memory_cold_page_size", JOB) == pytest.approx(0.6 * GIB, rel=0.01)
    whole = found.value("pod_memory_usage_with_page_cache", JOB)
    hot = found.value("pod_memory_usage_with_hot_page_usage", JOB)
    assert hot == pytest.approx(whole - 0.6 * GIB, rel=0.01)  # type: ignore[operator]
    assert after(11, resctrl=False).measured.series("resctrl_resource_llc") == {}


def test_a_missing_metric_grows_old_and_others_do_not() -> None:
    found = after(20, Fault(FaultKind.MISSING, 5, 30, "node_cpu_*"))
    assert found.measured.value("node_cpu_usage") is None
    assert found.measured.value("pod_cpu_usage", WEB) is not None
    for _ in range(12):
        found.step()
    assert found.measured.value("node_cpu_usage") is not None


def test_a_stuck_metric_stays_what_it_was() -> None:
    found = after(6, Fault(FaultKind.STUCK, 5, 30, "pod_cpu_usage"))
    before = found.measured.value("pod_cpu_usage", JOB)
    found.cgroups.put("kubepods/besteffort", "cpu.cfs_quota_us", 20_000)
    for _ in range(14):
        found.step()
    assert found.measured.value("pod_cpu_usage", JOB) == before
    assert found.measured.value("container_cpu_usage", JOB, "job-c0") == pytest.approx(0.1)
    for _ in range(11):
        found.step()
    assert found.measured.value("pod_cpu_usage", JOB) == pytest.approx(0.2)


def test_a_node_without_pods_is_measured_too() -> None:
    found = Simulation(story(seconds=5), ())
    for _ in range(3):
        found.step()
    assert found.measured.value("node_cpu_usage") == pytest.approx(0.5)
    assert not math.isnan(found.run.memory[0])


def test_wait_for_cpu_is_what_tasks_waited_by_what_they_ran() -> None:
    """One CPU, half used: in M/M/1 each task waits as long as it runs."""
    alone = story(web(cpu=0.5), seconds=30, machine=SimulatedMachine(1, 1, system_cpu=Constant(0)))
    found = Simulation(alone, ())
    for _ in range(11):
        found.step()
    wait = found.measured.value("pod_cpu_sched_wait", WEB)
    assert wait == pytest.approx(1000, rel=1e-6)
    assert found.run.waiting[10, 0] == pytest.approx(0.5)
