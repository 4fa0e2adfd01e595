"""The schedulers of a run, with every plugin that needs no koordlet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

from tests.chaos_scheduler.takeovers import LEASE
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.processes import PATIENCE
from tests.support.scheduler_program import QUICK, SchedulerProgram
from tests.support.waiting import until

T = TypeVar("T")

_PLUGINS = (
    {"name": "Reservation", "weight": 5000},
    {"name": "NodeNUMAResource"},
    {"name": "DeviceShare"},
    {"name": "Coscheduling"},
    {"name": "ElasticQuota"},
    {"name": "NodeResourcesFitPlus"},
    {"name": "ScarceResourceAvoidance"},
)
_CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"resourceName": LEASE, "resourceNamespace": "kube-system"},
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": _PLUGINS}},
            # Else a parent may lend more than its max while what is lent moves between children.
            "pluginConfig": [{"name": "ElasticQuota", "args": {"enableCheckParentQuota": True}}],
        }
    ],
}


def unreliable_schedulers(server: KubeApiserver) -> list[SchedulerProgram]:
    """Two that lose 1 % of their bindings."""
    kubeconfig = server.kubeconfig("scheduler", ADMIN)
    config = server.folder / "scheduler-config.yaml"
    config.write_text(json.dumps(_CONFIG))
    network = server.network
    return [
        SchedulerProgram(
            name,
            server.folder,
            kubeconfig,
            *QUICK,
            f"--config={config}",
            host=network.address,
            inside=network.inside([]),
            module="tests.support.unreliable_writer",
        )
        for name in ("s1", "s2")
    ]


class Replicas:
    """Who leads, and who stands by."""

    def __init__(self, schedulers: list[SchedulerProgram]) -> None:
        self.all = schedulers

    async def start(self) -> None:
        for one in self.all:
            await asyncio.to_thread(one.start)
        await self.leader()

    async def leader(self) -> SchedulerProgram:
        """The one that leads, once there is one alone."""

        def alone() -> SchedulerProgram | None:
            found = [one for one in self.all if one.ready and one.leads]
            return found[0] if len(found) == 1 else None

        found = await wait(alone, "a leader")
        assert found is not None
        return found

    async def leader_and_other(self) -> tuple[SchedulerProgram, SchedulerProgram]:
        leader = await self.leader()
        other = next(one for one in self.all if one is not leader)
        await wait(lambda: other.ready, "a standby")
        return leader, other


async def wait(condition: Callable[[], T], what: str) -> T:
    """Ask a scheduler in a thread, so that all else is followed meanwhile."""
    return await until(lambda: asyncio.to_thread(condition), what, seconds=2 * PATIENCE)
