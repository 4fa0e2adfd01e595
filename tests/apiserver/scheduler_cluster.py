"""Nodes without kubelets, and pods on them, in a real API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec
from koord_kube.client import Client, Limits
from koord_kube.connect import connect
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import NODES, PODS

from tests.apiserver.scheduling_history import Node, Pod
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.listing import listed
from tests.support.waiting import until

NAMESPACE = "shop"
CORES = 4
MILLICORES = 200
TAINT = {"key": "broken", "effect": "NoSchedule"}


async def admin_client(server: KubeApiserver) -> Client:
    """A client that may do all, as often as it likes."""
    return await connect(str(server.kubeconfig("admin", ADMIN)), Limits(qps=0))


class ScheduledCluster:
    """Nodes without kubelets, and pods on them, by the API alone."""

    def __init__(self, server: KubeApiserver, client: Client) -> None:
        self.server = server
        self.client = client

    async def nodes(self, *names: str) -> None:
        async def create(name: str) -> None:
            await self.client.create(
                NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            )
            amounts = {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            await self.client.patch(NODES, name, status, subresource="status")
            # The API server takes new nodes for not ready.
            await self.client.patch(NODES, name, {"spec": {"taints": None}})

        await for_all(create, names)

    async def pods(
        self,
        prefix: str,
        number: int,
        millicores: int = MILLICORES,
        *,
        labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Pods by name and number; ``more`` is of their spec."""

        async def create(name: str) -> None:
            requests = {"cpu": f"{millicores}m", "memory": "64Mi"}
            container = {"name": "c", "image": "i", "resources": {"requests": requests}}
            spec = {"containers": [container], **more}
            meta = {"name": name, "namespace": NAMESPACE, "labels": labels or {"app": prefix}}
            given = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            await self.client.create(PODS, given, NAMESPACE)

        await for_all(create, [f"{prefix}-{one}" for one in range(number)])

    async def all_pods(self) -> list[Object]:
        found, _ = await listed(self.client, PODS)
        return [one for one in found if one["metadata"]["namespace"] == NAMESPACE]

    async def objects(self) -> tuple[list[Pod], list[Node]]:
        """What of pods and nodes counts."""
        pods, _ = await listed(self.client, PODS, NAMESPACE)
        nodes, _ = await listed(self.client, NODES)
        return msgspec.convert(pods, list[Pod]), msgspec.convert(nodes, list[Node])

    async def bound(self) -> dict[str, str]:
        """The node of each pod that has one."""
        pods = await self.all_pods()
        return {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in pods
            if one["spec"].get("nodeName")
        }

    async def wait_bound(self, number: int) -> dict[str, str]:
        async def enough() -> dict[str, str] | None:
            found = await self.bound()
            return found if len(found) >= number else None

        found = await until(enough, f"{number} pods with nodes")
        assert found is not None
        return found

    async def clean(self) -> None:
        """No pods and no nodes: there is no kubelet that would end them."""

        await for_all(self.end, [one["metadata"]["name"] for one in await self.all_pods()])
        nodes, _ = await listed(self.client, NODES)
        await for_all(
            partial(self.client.delete, NODES), [one["metadata"]["name"] for one in nodes]
        )

    async def end(self, name: str) -> None:
        """What a kubelet does of a pod that is being deleted."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await self.client.write(Request("DELETE", PODS, name, NAMESPACE, body=body))

    async def check(self) -> None:
        """No node has more than it can have."""
        on = Counter((await self.bound()).values())
        assert max(on.values()) * MILLICORES <= CORES * 1000


async def for_all(do: Callable[[str], Awaitable[Any]], names: Iterable[str]) -> None:
    limit = anyio.Semaphore(32)

    async def one(name: str) -> None:
        async with limit:
            await do(name)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)
