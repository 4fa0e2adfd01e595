from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_simulation.node_model.machine import GIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import Simulation

from tests.simulation.stories import job, story, web


def after(seconds: int, *pods: Workload, **machine: Any) -> Simulation:
    made = SimulatedMachine(**{"cpus": 8, "memory": 16 * GIB, **machine})
    found = Simulation(story(*pods, seconds=seconds + 1, machine=made), ())
    for _ in range(seconds):
        found.step()
    return found


def test_a_pod_alone_is_as_fast_as_it_can_be() -> None:
    found = after(5, web(cpu=0.5)).run
    assert found.p99[4, 0] == pytest.approx(12.5, rel=0.03)
    assert found.used[4, 0] == pytest.approx(0.5, rel=0.02)
    assert np.isnan(found.throttled[0, 0]) or found.throttled[4, 0] == 0


def test_a_limit_that_is_too_small_throttles_and_work_piles_up() -> None:
    tight = after(20, web(cpu=2, limits={"cpu": 1500})).run
    assert tight.throttled[19, 0] == 1
    assert tight.used[19, 0] == pytest.approx(1.5)
    assert tight.p99[19, 0] > 2000
    assert tight.p99[19, 0] > tight.p99[10, 0]


def test_work_left_over_is_done_when_there_is_room_again() -> None:
    busy = web(cpu=2, limits={"cpu": 8000})
    found = after(30, busy, job("hog", cpu=64, end=10, requests={"cpu": 8000, "memory": GIB}))
    assert found.run.p99[9, 0] > 100
    assert found.run.p99[29, 0] < 50


def test_pressure_follows_what_waits() -> None:
    calm, torn = after(30, web(cpu=1)), after(30, web(cpu=1), job(cpu=30))
    assert calm.run.pressure[29] < 1
    assert torn.run.pressure[29] > 80
    psi = torn.measured.series("container_psi")
    assert psi["uid-default-job", "job-c0", "cpu", "avg10", "some"] > 80
    assert psi["uid-default-web", "web-c0", "cpu", "avg10", "some"] < 50


def test_what_is_killed_uses_no_cpu() -> None:
    found = after(5, web(cpu=1), job(cpu=2, leak=8 * GIB))
    assert [one.pod for one in found.run.kills] == ["default/job"]
    assert found.run.used[4, 1] == 0
    assert np.isnan(found.run.p99[4, 1])


@given(
    st.floats(0.1, 4),
    st.floats(0, 10),
    st.floats(0.01, 10),
    st.sampled_from([{}, {"cpu": 2000}, {"cpu": 6000}]),
)
def test_more_best_effort_cpu_never_makes_services_faster(
    services: float, jobs: float, more: float, limits: dict[str, int]
) -> None:
    def state(wants: float) -> tuple[float, float]:
        found = after(8, web(cpu=services, limits=limits), web("other", 1.0), job(cpu=wants))
        return float(found.run.p99[7, 0]), float(found.run.be_cpu[7])

    before, used_before = state(jobs)
    behind, used = state(jobs + more)
    assert behind >= before - 1e-6 * before
    assert used >= used_before - 0.05


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 8), st.integers(0, 6)), max_size=6))
def test_no_more_cpu_is_used_than_there_is(pods: list[tuple[bool, float, int]]) -> None:
    made = [
        (job if batch else web)(f"p{number}", cpu=cpu, start=float(start))
        for number, (batch, cpu, start) in enumerate(pods)
    ]
    found = after(8, *made).run
    assert (found.cpu[:8] <= 8 + 1e-6).all()
    assert np.nansum(found.used[:8], axis=1) == pytest.approx(found.cpu[:8] - 0.5, abs=1e-6)
