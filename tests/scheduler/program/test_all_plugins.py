"""Plugins that share objects, all enabled in one scheduler."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.extension_points.api_services import Controller
from koord_scheduler.program import program as module

from tests.scheduler.program.test_program import Side, side
from tests.support.waiting import until

__all__ = ["side"]
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Coscheduling}, {name: GangScheduling}, {name: TopologyPlacementGenerator},
                  {name: ElasticQuota}, {name: Reservation}, {name: DeviceShare}]
  - schedulerName: another
    plugins: {multiPoint: {enabled: [{name: GangScheduling}, {name: ElasticQuota}]}}
"""


async def test_each_controller_runs_once_and_each_metric_is_exposed_once(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Counter[str]()

    async def run(controller: Controller, *_: object) -> None:
        runs[controller.name] += 1

    monkeypatch.setattr(module, "run_controller", run)
    async with side.scheduler(config=read_scheduler_config(CONFIG)) as program:
        await until(lambda: "PodGroups" in runs, "controllers")
        families = await asyncio.to_thread(lambda: [*program.registry.collect()])
    assert set(runs.values()) == {1}
    metrics = Counter(family.name for family in families)
    assert [name for name, number in metrics.items() if number > 1] == []
    assert "pykoord_scheduler_gangs" in metrics
