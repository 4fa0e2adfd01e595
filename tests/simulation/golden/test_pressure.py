"""Who waits for CPU, and from whom: ``pressure_suppress`` and ``interference``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from koord_simulation.node_model.curves import Constant, Noise, Spikes
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.record import Run
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import run, said, slo, unharmed
from tests.simulation.stories import job, story, web

SUPPRESS, PRESSURE, INTERFERENCE = "cpu_suppress", "pressure_suppress", "interference"
BOTH = (SUPPRESS, PRESSURE)
LOOSE = slo(cpu_suppress=95)
"""A threshold that leaves services to wait; what the pressure is for."""


def services(cores: float = 14.0, **more: Any) -> list[Workload]:
    curve = Constant(cores / 4) + Noise(0.1)
    return [replace(web(f"web-{number}"), cpu=curve, **more) for number in range(4)]


def node(*pods: Workload, seconds: int = 600, **more: Any) -> Scenario:
    given = {"machine": SimulatedMachine(cpus=32, memory=128 * GIB), "slo": LOOSE, **more}
    return story(*pods, seconds=seconds, **given)


def p99(ran: Run, since: int = 200) -> float:
    return float(np.nanmean(ran.p99[since:, :4]))


JOBS = job(cpu=30.0, containers=8)


def test_services_that_wait_get_room_below_the_threshold() -> None:
    alone, both = (run(node(*services(18), JOBS), *names) for names in ((SUPPRESS,), BOTH))
    unharmed(alone, both)
    assert p99(both) < p99(alone)
    assert both.be_cpu[200:].mean() < alone.be_cpu[200:].mean()
    assert both.be_allowed.min() >= 2
    assert said(both, "best-effort pods get less")


def test_what_was_taken_comes_back_slowly() -> None:
    busy = [replace(one, cpu=Constant(1.0) + Spikes(4.0, 10_000, 200, 100)) for one in services()]
    ran = run(node(*busy, JOBS, seconds=900), *BOTH)
    low = int(ran.be_allowed[100:320].argmin()) + 100
    assert ran.be_allowed[low] < ran.be_allowed[90]
    assert ran.be_allowed[-1] > 0.9 * ran.be_allowed[90]
    rises = np.diff(ran.be_allowed[low:])
    assert rises.max() <= 3.2, "a tenth of the node at once is the most"


# ---- who suffers, and from whom


NOISY = replace(
    job("noisy", cpu=20.0, start=1500.0, end=2100.0, containers=8), llc_bytes=6 * MIB, bandwidth=8e9
)
QUIET = job("quiet", cpu=1.0)


def sensitive() -> list[Workload]:
    return services(8, llc_sensitivity=1.5)


def test_a_neighbour_that_takes_the_cache_is_named() -> None:
    """And only it, and only for as long as it is there."""
    ran = run(node(*sensitive(), QUIET, NOISY, seconds=2400), INTERFERENCE)
    unharmed(ran)
    suffers = said(ran, "needs more cycles")
    assert suffers, [one.outcome for one in ran.said][:5]
    assert all(1500 < one.at < 2200 for one in suffers)
    assert any("default/noisy" in one.outcome for one in suffers)
    assert not any("default/quiet" in one.outcome for one in ran.said)
    assert "usual" in suffers[0].outcome, "with the numbers"
