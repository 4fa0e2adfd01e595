"""A manager that serves the metrics APIs on loopback, over TLS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from koord_manager.metrics_apis.core.catalogue import capacity_of
from koord_manager.metrics_apis.core.pods import PodIndex, read_pod
from koord_manager.metrics_apis.sources import UsageSources
from koord_manager.program.gates import METRICS_APIS
from koord_manager.program.metrics_groups import METRICS_GROUPS, served_groups
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.times import rfc3339

from tests.support.metrics_service import DISCOVERS, READER, make_manager

Get = Callable[..., Any]


class UsageServer:
    """A manager that serves usage of the nodes and pods that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.manager = make_manager(folder)
        self.pods: PodIndex | None = PodIndex()
        service, manager = self.manager.service, self.manager
        groups = [group.name for group in METRICS_GROUPS]
        rules = {"verbs": ["get", "list"], "apiGroups": groups, "resources": ["*"]}
        manager.reviews.access.grant("readers", rules, DISCOVERS)
        self.descriptors: dict[str, bytes] | None = {}
        self.sources = UsageSources(
            service.store,
            service.complete,
            lambda: self.pods,
            lambda name: {"node": name},
            lambda node: manager.strategies.get(node, ColocationStrategy()),
            lambda node: capacity_of(
                {"cpu": "4", "memory": "8Gi"}, self.sources.strategy(node).metric_memory_policy
            ),
            clock=lambda: manager.wall + manager.now,
            monotonic=lambda: manager.now,
        )
        gates = dict.fromkeys(METRICS_APIS, True)
        for group in served_groups(gates, self.sources, lambda: self.descriptors):
            service.served.add(group)

    def report(
        self, node: str, *pods: str, cpu: str = "250m", node_ours: Any = None, **ours: Any
    ) -> None:
        """Each pod is in the namespace ``shop`` and has run for an hour.

        ``ours`` is what koordlet adds to it, ``node_ours`` to the node; those with ``containers``
        have a pod of these.
        """
        now, known = self.manager.wall + self.manager.now, self.pods
        assert known is not None
        used = {"resources": {"cpu": cpu, "memory": "64Mi"}}
        limits = {"resources": {"limits": {"cpu": "500m"}}}
        for name in pods:
            meta = {"name": name, "namespace": "shop", "labels": {"app": name[:3]}}
            meta["creationTimestamp"] = rfc3339(now - 3600)
            inside = [{"name": inner, **limits} for inner in ours.get("containers", ["main"])]
            spec = {"nodeName": node, "containers": inside}
            raw = json.dumps({"metadata": meta, "spec": spec}).encode()
            known.changed(f"shop/{name}", None, read_pod(raw))
        status = {
            "updateTime": rfc3339(now - 5),
            "extensions": {"pykoord": node_ours},
            "nodeMetric": {
                "nodeUsage": used,
                "numaUsages": [{"numaNodeID": zone, "nodeUsage": used} for zone in (0, 1)],
            },
            "podsMetric": [
                {
                    "namespace": "shop",
                    "name": name,
                    "podUsage": used,
                    "extensions": {"pykoord": ours},
                }
                for name in pods
            ],
        }
        raw = json.dumps(status).encode()
        self.manager.put(node, status=raw)
        self.sources.samples(node)  # as an autoscaler asks all the time
        self.sources.remember(node, raw, self.manager.now)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[UsageServer]:
    made = UsageServer(tmp_path)
    await made.manager.start()
    made.manager.lead(5000)
    made.report("n1", "web-1", "web-2")
    made.report("n2", "sql-1")
    yield made
    await made.manager.service.stop()


@pytest.fixture
async def get(server: UsageServer) -> AsyncIterator[Get]:
    connector = aiohttp.TCPConnector(ssl=server.manager.trust)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(path: str, status: int = 200, accept: str = "*/*", verb: str = "GET") -> Any:
            headers = {"Authorization": f"Bearer {READER}", "Accept": accept}
            url = server.manager.url + path
            async with session.request(verb, url, headers=headers) as answer:
                body = await answer.read()
                assert answer.status == status, body
                return json.loads(body) | ({"retry": answer.headers.get("Retry-After")})

        yield ask
