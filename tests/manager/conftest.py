from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.events import EventSource
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.resources import CONFIG_MAPS, EVENTS, NODE_METRICS, NODE_SLOS, NODES
from koord_manager.node_objects.core.nodes import ClusterNode, read_node
from koord_manager.slo_config.informer import SLOConfigInformer

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

PACE = ReflectorTiming(first=0.004, cap=0.02)
NAMESPACE, NAME = "koordinator-system", "slo-controller-config"


def event_recorder(client: Client) -> EventRecorder:
    writer = BackgroundWriter(TaskSubmitter(client.write).submit, client.backoff)
    return EventRecorder(writer, EventSource("koord-manager", "m-1"))


@dataclass
class Bench:
    """A double of the API server, a client of it, and what of the manager runs against them."""

    api: KubeApi
    client: Client
    group: asyncio.TaskGroup
    reported: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.group.create_task(work)
        self.tasks.append(task)
        return task

    def configs(self, run: bool = True) -> SLOConfigInformer:
        made = SLOConfigInformer(
            self.client, self.recorder(), on_warning=self.reported.append, pace=PACE
        )
        if run:
            self.run(made.run())
        return made

    def recorder(self) -> EventRecorder:
        made = event_recorder(self.client)
        self.run(made.run())
        return made

    def nodes(
        self, changed: Callable[[str, ClusterNode | None, ClusterNode | None], None]
    ) -> Informer[ClusterNode]:
        informer = Informer(self.client, NODES, decode=read_node, on_change=changed, timing=PACE)
        self.run(informer.run())
        return informer

    def configure(self, **data: str) -> None:
        named = {f"{name.replace('_', '-')}-config": text for name, text in data.items()}
        self.api.put(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": named}, NAMESPACE)

    def events(self) -> list[tuple[str, str]]:
        """Reason and message of each."""
        found = [one for key, one in self.api.objects.items() if key.resource == EVENTS]
        return [(one["reason"], one["message"]) for one in found]

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.002)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    kinds = frozenset({NODES, EVENTS, NODE_METRICS, NODE_SLOS, CONFIG_MAPS})
    limits = Limits(qps=0, answer=PATIENCE, watch=20.0, grace=5.0)
    async with (
        KubeApi(installed=kinds) as api,
        Client(Cluster(api.url), limits) as client,
        asyncio.TaskGroup() as group,
    ):
        made = Bench(api, client, group)
        yield made
        for task in made.tasks:
            task.cancel()
