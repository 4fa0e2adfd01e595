"""What each strategy takes of the NodeSLO; the extensions are ``core.settings``'s."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from koord_model.blkio_qos import BlkIOQoS, BlockQoS
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.node_slo import ClassQoS, NodeSLO
from koord_model.qos import QoSClass
from koord_model.system_strategy import SystemStrategy
from koord_model.used_threshold import CPUEvictPolicy, SuppressPolicy, UsedThreshold
from koordlet.qos_manager.strategies import (
    be_cpu_evict,
    be_memory_evict,
    cpu_allocatable_evict,
    cpu_evict,
    cpu_weight,
    dying_cgroups,
    memory_allocatable_evict,
    memory_evict,
    memory_guard,
    memory_watermark,
    system_config,
    threshold_evict,
)
from koordlet.qos_manager.strategies.blkio import strategy as blkio
from koordlet.qos_manager.strategies.cpu_burst import strategy as cpu_burst
from koordlet.qos_manager.strategies.cpu_suppress import strategy as cpu_suppress
from koordlet.qos_manager.strategies.interference import strategy as interference
from koordlet.qos_manager.strategies.memory_offload import strategy as memory_offload
from koordlet.qos_manager.strategies.memory_qos import strategy as memory_qos
from koordlet.qos_manager.strategies.pressure_suppress import strategy as pressure_suppress

BE, LS, LSR, ROOT = (BlkIOQoS(True, (BlockQoS(name),)) for name in ("be", "ls", "lsr", "root"))
SLO = NodeSLO(
    threshold=UsedThreshold(
        enable=True,
        cpu_suppress=61,
        cpu_suppress_min=15,
        cpu_suppress_policy=SuppressPolicy.CFS_QUOTA,
        memory_evict=80,
        memory_evict_lower=70,
        memory_allocatable_evict=110,
        memory_allocatable_evict_lower=100,
        cpu_evict_policy=CPUEvictPolicy.ALLOCATABLE,
        cpu_evict_satisfaction_lower=30,
        cpu_evict_satisfaction_upper=40,
        cpu_evict_be_usage=50,
        cpu_evict_window_seconds=60,
        cpu_evict=81,
        cpu_evict_lower=71,
        cpu_allocatable_evict=111,
        cpu_allocatable_evict_lower=101,
        evict_priority=5999,
        allocatable_evict_priority=7999,
    ),
    burst=CPUBurst(BurstPolicy.AUTO, 500, 200, 60, 40),
    system=SystemStrategy(100, 150, 1, 0, 7, 1, {"NEXT_BUDDY": True}),
    classes={
        qos: ClassQoS(blkio=asked)
        for qos, asked in ((QoSClass.BE, BE), (QoSClass.LS, LS), (QoSClass.LSR, LSR))
    },
    root_blkio=ROOT,
)
EXPECTED: list[tuple[Any, tuple[object, ...]]] = [
    (be_cpu_evict, (True, 30, 40, 50, 60, CPUEvictPolicy.ALLOCATABLE)),
    (be_memory_evict, (True, 80, 70)),
    (blkio, (BE, LS, LSR, ROOT)),
    (cpu_allocatable_evict, (True, 111, 101, 7999)),
    (cpu_burst, (BurstPolicy.AUTO, 500, 200, 60, 40)),
    (cpu_evict, (True, 81, 71, 5999, 60)),
    (cpu_suppress, (True, 61, 15, SuppressPolicy.CFS_QUOTA)),
    (cpu_weight, ()),
    (interference, ()),
    (memory_allocatable_evict, (True, 110, 100, 7999)),
    (memory_evict, (True, 80, 70, 5999)),
    (dying_cgroups, ()),
    (memory_guard, (True,)),
    (memory_offload, ()),
    (memory_qos, ()),
    (memory_watermark, ()),
    (pressure_suppress, (True, 10, 30, 15)),
    (system_config, (100, 150, 1, 0, 7, 1, {"NEXT_BUDDY": True})),
    (threshold_evict, ()),
]


@pytest.mark.parametrize(
    ("strategy", "expected"), EXPECTED, ids=lambda one: getattr(one, "GATE", "")
)
def test_settings_are_those_of_the_node_slo(strategy: Any, expected: tuple[object, ...]) -> None:
    assert strategy.settings(SLO) == strategy.Settings(*expected)
    assert strategy.settings(NodeSLO()) == strategy.Settings()


def test_what_the_model_has_comes_back_whole() -> None:
    assert cpu_burst.settings(SLO).node == SLO.burst
    assert {one.name for one in fields(system_config.Settings)} == {
        one.name for one in fields(SystemStrategy)
    }
