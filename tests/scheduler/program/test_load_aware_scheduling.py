"""The scheduler follows NodeMetrics where a profile asks for them, beside the API's double."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import NODE_METRICS, Resource
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.program.program import SchedulerProgram

from tests.scheduler.program.test_program import Side
from tests.support.kube_api import KubeApi
from tests.support.kube_api.kinds import USUAL
from tests.support.processes import PATIENCE
from tests.support.waiting import until

CONFIG = read_scheduler_config(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling}]}}
"""
)


@asynccontextmanager
async def running(kinds: frozenset[Resource]) -> AsyncIterator[tuple[Side, SchedulerProgram]]:
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi(installed=kinds) as api, Client(Cluster(api.url), limits) as client:
        side = Side(api, client)
        side.node("n1")
        report(side, "3900m", kinds)
        async with side.scheduler(config=CONFIG) as program:
            yield side, program


def report(side: Side, cpu: str, kinds: frozenset[Resource], age: float = 0.0) -> None:
    if NODE_METRICS in kinds:
        usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}
        status = {"updateTime": rfc3339(time.time() - age), "nodeMetric": usage}
        side.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status})


async def test_a_pod_waits_until_less_is_used() -> None:
    async with running(USUAL) as (side, _):
        await side.pod("web")
        await until(lambda: side.scheduled("web").get("status") == "False", "a refusal")
        assert "1 node(s) cpu usage exceed threshold" in side.scheduled("web")["message"]
        report(side, "100m", USUAL)
        await side.bound("web")


async def test_a_report_may_be_too_old() -> None:
    async with running(USUAL) as (side, _):
        report(side, "100m", USUAL, age=200.0)
        await side.pod("web")
        await until(lambda: side.scheduled("web").get("status") == "False", "a refusal")
        assert "1 node(s) nodeMetric expired" in side.scheduled("web")["message"]
        report(side, "100m", USUAL)
        await side.bound("web")


async def test_without_node_metrics_requests_decide() -> None:
    async with running(USUAL - {NODE_METRICS}) as (side, program):
        await side.pod("web")
        await side.bound("web")
        assert program.status().cached["nodes"] == 1


async def test_reports_are_not_followed_where_no_profile_asks() -> None:
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        side = Side(api, client)
        side.node("n1")
        async with side.scheduler():
            await side.pod("web")
            await side.bound("web")
        assert NODE_METRICS.path() not in {one.path for one in api.asked}
