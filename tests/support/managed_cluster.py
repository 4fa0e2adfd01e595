"""A cluster with managers as processes of their own: its API server, its users, its Services."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from koord_kube.definitions import catalogue
from koord_kube.protocol import resources
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    DEFINITIONS,
    LEASES,
    NODE_METRICS,
    NODES,
    PODS,
    Resource,
)
from koord_model.keys import BATCH_CPU
from koord_model.quantity import whole
from kubernetes.aio import client as official

from tests.support.colocation import metric_status
from tests.support.emulated_manager import EmulatedManager, put_namespaces, put_priority_classes
from tests.support.kube_api import USUAL, KubeApi, RecordedRequest, service_account
from tests.support.manager_program import NAMESPACE, PATIENT, WEBHOOKS
from tests.support.waiting import until

_ALL = USUAL | {resources.ELASTIC_QUOTAS, resources.QUOTA_PROFILES}
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_LOOK_SECONDS = 0.1
LEASE = "koordinator-manager"


class ManagedCluster:
    """``core`` and ``custom`` are Kubernetes' own client, in the hands of an administrator."""

    def __init__(self, folder: Path, api: KubeApi, official_client: official.ApiClient) -> None:
        self.folder = folder
        self.api = api
        self.core = official.CoreV1Api(official_client)
        self.managers: list[EmulatedManager] = []
        self._pods = count()

    # ---- its managers

    def manager(self, name: str, *flags: str) -> EmulatedManager:
        """One that is not started yet, and that has a token of its own."""
        token = f"token-of-{name}"
        self.api.access.identities[token] = service_account("koord-manager", NAMESPACE, pod=name)
        made = EmulatedManager(name, self.folder, self.api, *(flags or PATIENT), token=token)
        self.managers.append(made)
        return made

    async def started(self, name: str, *flags: str, leads: bool = True) -> EmulatedManager:
        """One that is ready, and leads if it should."""
        made = self.manager(name, *flags)
        made.start()
        await ready(made)
        if leads:
            await until(lambda: made.leads, f"{name} leads")
        return made

    def asked_by(self, manager: EmulatedManager, since: int = 0) -> list[RecordedRequest]:
        """What a manager asked for after so many requests of all."""
        return [one for one in self.api.asked[since:] if one.token == f"token-of-{manager.name}"]

    def writes_by(self, manager: EmulatedManager, since: int = 0) -> list[RecordedRequest]:
        return [one for one in self.asked_by(manager, since) if one.verb in _WRITES]

    @property
    def holder(self) -> str:
        """The pod of whoever holds the Lease."""
        found = self.found(LEASES, LEASE, NAMESPACE)
        spec = found["spec"] if found else {}
        return str(spec.get("holderIdentity") or "").rpartition("_")[0]

    @asynccontextmanager
    async def webhooks_follow_readiness(self) -> AsyncIterator[None]:
        """The webhooks' Service leads to ready managers, in turn, as kube-proxy has it."""

        async def follow() -> None:
            async with aiohttp.ClientSession() as session:
                for turn in count():
                    found = [one for one in self.managers if await _is_ready(session, one)]
                    if found:
                        found[turn % len(found)].serve_webhooks()
                    else:
                        self.api.services.pop((NAMESPACE, WEBHOOKS, 443), None)
                    await asyncio.sleep(_LOOK_SECONDS)

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow())
            await until(lambda: (NAMESPACE, WEBHOOKS, 443) in self.api.services, "a manager")
            yield
            following.cancel()

    # ---- what is in it

    def install(self) -> None:
        """Our definitions."""
        for one in catalogue.DEFINITIONS:
            self.api.put(DEFINITIONS, one)

    def found(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        try:
            return self.api.get(resource, name, namespace)
        except KeyError:
            return None

    def names(self, resource: Resource) -> set[str]:
        return {key.name for key in self.api.objects if key.resource == resource}

    def put_config(self, **keys: str) -> None:
        """slo-controller-config; "_" in keys is "-"."""
        data = {key.replace("_", "-"): text for key, text in keys.items()}
        meta = {"name": "slo-controller-config"}
        self.api.put(CONFIG_MAPS, {"metadata": meta, "data": data}, NAMESPACE)

    def put_node(self, name: str, **annotations: str) -> None:
        """Ten cores; of what its kubelet says nothing of ours is lost."""
        there = self.found(NODES, name)
        amounts = {"cpu": "10", "memory": "100Gi", "pods": "110"}
        given = there or {"status": {"capacity": amounts, "allocatable": dict(amounts)}}
        meta = {**given.get("metadata", {"name": name})}
        meta["annotations"] = {**meta.get("annotations", {}), **annotations}
        self.api.put(NODES, {**given, "metadata": meta})

    def report(self, node: str, cores: float) -> None:
        """The node's koordlet says that its production pod, which asked for 8, uses so much."""
        there = self.found(NODE_METRICS, node)
        assert there is not None, f"no NodeMetric of {node}"
        status = metric_status("shop", f"web-{node}", cores)
        self.api.put(NODE_METRICS, {**there, "status": status})

    def put_production_pod(self, node: str) -> None:
        requests = {"cpu": "8", "memory": "8Gi"}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        spec = {"nodeName": node, "containers": [container]}
        status = {"phase": "Running", "qosClass": "Burstable"}
        meta = {"name": f"web-{node}", "labels": {"app": "web"}}
        self.api.put(PODS, {"metadata": meta, "spec": spec, "status": status}, "shop")

    def batch(self, node: str) -> int | None:
        """The milli-cores of batch that it offers."""
        found = self.found(NODES, node)
        said = ((found or {}).get("status") or {}).get("allocatable", {}).get(BATCH_CPU)
        return None if said is None else whole(said)

    async def busy_nodes(self, *names: str, cores: int) -> None:
        """Nodes that report such a load, and offer what is left of the six cores of batch-cpu."""
        for name in names:
            self.put_node(name)
            self.put_production_pod(name)
        await until(lambda: set(names) <= self.names(NODE_METRICS), "NodeMetrics")
        for name in names:
            self.report(name, cores)
        await self.offers(names, 6000 - 1000 * cores)

    async def offers(self, names: Iterable[str], amount: int) -> None:
        """Until all of them offer so much batch-cpu."""
        wanted = set(names)
        try:
            await until(lambda: {self.batch(one) for one in wanted} == {amount})
        except AssertionError:
            raise AssertionError({one: self.batch(one) for one in wanted}) from None

    async def create_pod(self, namespace: str = "shop") -> Mapping[str, str]:
        """Made by a user; the labels that it has then."""
        name = f"p-{next(self._pods)}"
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "batch"}},
            "spec": {"containers": [container]},
        }
        made: Any = await self.core.create_namespaced_pod(namespace, body)
        labels: dict[str, str] = made.metadata.labels
        return labels

    def put_profile(self) -> None:
        """What makes batch pods of those of "app: batch"."""
        spec = {
            "selector": {"matchLabels": {"app": "batch"}},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
        }
        self.api.put(COLOCATION_PROFILES, {"metadata": {"name": "batch"}, "spec": spec})


@asynccontextmanager
async def managed_cluster(
    folder: Path, installed: frozenset[Resource] = _ALL
) -> AsyncIterator[ManagedCluster]:
    """One with co-location on, and no manager yet; with our definitions where nothing is said."""
    async with KubeApi(installed=installed) as api:
        put_namespaces(api, "shop")
        put_priority_classes(api)
        settings = official.Configuration(host=api.url)
        async with official.ApiClient(settings) as opened:
            made = ManagedCluster(folder, api, opened)
            made.put_config(colocation_config='{"enable": true}')
            if installed == _ALL:
                made.install()
                made.put_profile()
            try:
                yield made
            finally:
                for one in made.managers:
                    one.close()
                    # Shown by pytest if anything fails.
                    print(f"---- {one.name}\n{one.said[-4000:]}")


async def ready(manager: EmulatedManager) -> None:
    """Until the kubelet would say so."""
    async with aiohttp.ClientSession() as session:
        await until(lambda: _is_ready(session, manager), f"{manager.name} is ready")


async def _is_ready(session: aiohttp.ClientSession, manager: EmulatedManager) -> bool:
    timeout = aiohttp.ClientTimeout(total=30)
    try:
        url = f"http://127.0.0.1:{manager.health_port}/readyz"
        async with session.get(url, timeout=timeout) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def decoded(secret: Object, key: str) -> bytes:
    """One entry of a Secret."""
    return base64.b64decode(secret["data"][key])
