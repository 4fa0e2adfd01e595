"""Whatever is lost, stuck or restarted, what was decided stays, and nobody is evicted for it.

That each strategy says what it does not know is tested with its plan; here it goes on in time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from koord_model.used_threshold import SuppressPolicy
from koord_simulation.node_model.curves import Constant, Ramp, Spikes
from koord_simulation.node_model.faults import Fault, FaultKind
from koord_simulation.node_model.machine import GIB, SimulatedMachine

from tests.simulation.golden.runs import run, said, slo, unharmed
from tests.simulation.stories import job, story, web

NODE = SimulatedMachine(cpus=32, memory=128 * GIB)
AGAIN = tuple(Fault(FaultKind.RESTART, at) for at in range(60, 150, 7))
JUMPS = tuple(
    Fault(FaultKind.CLOCK, at, at + 40, seconds=by) for at, by in ((60, 86_400.0), (105, -86_400.0))
)


@pytest.mark.parametrize("policy", list(SuppressPolicy))
@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ((Fault(FaultKind.MISSING, 60, 120, "node_cpu_usage"),), "not known"),
        ((Fault(FaultKind.MISSING, 60, 120, "pod_cpu_usage"),), "not known"),
        ((Fault(FaultKind.MISSING, 60, 120, "*"),), "not known"),
        ((Fault(FaultKind.PODS_UNKNOWN, 60, 120),), "which pods run: not known"),
        ((Fault(FaultKind.STUCK, 60, 120, "pod_*"),), ""),
        ((Fault(FaultKind.STUCK, 60, 120, "node_*"),), ""),
    ],
    ids=["node use", "pod use", "all", "pods", "stuck pods", "stuck node"],
)
def test_what_is_not_known_moves_no_best_effort_pod(
    faults: tuple[Fault, ...], words: str, policy: SuppressPolicy
) -> None:
    """Koordinator's suppression was silently without effect: K#2723, K#1056, K#696."""
    pod = replace(web(), cpu=Constant(4.0) + Spikes(8, 1000, 30, 85, once=True))
    asked = slo(cpu_suppress=65, cpu_suppress_policy=policy)
    pods = pod, job(cpu=30.0, containers=4)
    ran = run(story(*pods, seconds=150, machine=NODE, slo=asked, faults=faults), "cpu_suppress")
    unharmed(ran)
    # Newest values count for 10 s; what the kubelet knows counts at once.
    since = 71 if words == "not known" else 60
    if words:
        assert len(set(ran.be_allowed[since:120])) == 1
        [first] = [one for one in said(ran, words) if one.at > 1]
        assert 60 <= first.at <= since
    assert ran.be_allowed.min() >= 2


@pytest.mark.parametrize("faults", [AGAIN, JUMPS], ids=["restarts", "clock"])
def test_restarts_and_clocks_move_nothing(faults: tuple[Fault, ...]) -> None:
    """What the last run left is what the next begins with: K#1056."""
    pods = replace(web(), cpu=Constant(8.0)), job(cpu=30.0, containers=4)
    whole = story(*pods, seconds=150, machine=NODE, slo=slo(cpu_suppress=65), faults=faults)
    ran, without = run(whole, "cpu_suppress"), run(replace(whole, faults=()), "cpu_suppress")
    assert np.array_equal(ran.be_allowed, without.be_allowed)


def test_without_a_node_slo_nobody_is_held_down_and_its_return_does_it() -> None:
    """And it is said that nothing is done: K#2723."""
    pods = replace(web(), cpu=Constant(8.0)), job(cpu=30.0, containers=4)
    gone = (Fault(FaultKind.NO_SLO, 60, 120),)
    whole = story(*pods, seconds=150, machine=NODE, slo=slo(cpu_suppress=65), faults=gone)
    ran = run(whole, "cpu_suppress")
    assert set(ran.be_allowed[60:120]) == {32.0}
    assert [one.at for one in said(ran, "does not enable it")] == [60]
    assert ran.be_allowed[121] < 14


@pytest.mark.parametrize(
    ("faults", "since"),
    [
        ((Fault(FaultKind.MISSING, 20, 150, "node_memory_usage"),), 150),
        ((Fault(FaultKind.MISSING, 20, 150, "pod_memory_usage"),), 150),
        ((Fault(FaultKind.NO_SLO, 20, 150),), 150),
        ((Fault(FaultKind.PODS_UNKNOWN, 20, 150),), 150),
        (tuple(Fault(FaultKind.RESTART, at) for at in range(56, 100, 5)), 40),
        ((Fault(FaultKind.CLOCK, 45, 60, seconds=-1e6),), 40),
    ],
    ids=["node use", "pod use", "no NodeSLO", "pods", "restarts", "clock"],
)
def test_nobody_is_evicted_for_what_is_not_known_and_nobody_twice(
    faults: tuple[Fault, ...], since: int
) -> None:
    cache = replace(web("cache"), memory=Ramp(8 * GIB, 22 * GIB, 30, 60))
    jobs = [job(f"job-{number}", 1.0, memory=Constant(4 * GIB)) for number in range(8)]
    asked = slo(memory_evict=80, memory_evict_lower=70)
    machine = SimulatedMachine(cpus=16, memory=64 * GIB)
    whole = story(cache, *jobs, seconds=220, machine=machine, slo=asked, faults=faults)
    ran = run(whole, "be_memory_evict")
    unharmed(ran)
    assert [one for one in ran.evictions if one.at < since] == []
    assert len(ran.evictions) == len(set(ran.evicted())) == 3
