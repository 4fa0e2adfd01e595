"""Memory that is protected, given back and kept free, and shares of the cache.

``memory_qos``, ``memory_offload``, ``system_config``, ``resctrl``, ``blkio``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from koord_model.memory_qos import MemoryQoS
from koord_model.node_slo import ClassQoS, NodeSLO, ResctrlQoS
from koord_model.qos import QoSClass
from koord_simulation.node_model.curves import Constant, Ramp
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.workload import Workload
from koord_simulation.run.simulation import simulate
from koord_simulation.scenario.scenario import Scenario

from tests.simulation.golden.runs import run, said, unharmed
from tests.simulation.stories import job, story, web


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


# ---- system_config


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


# ---- blkio
