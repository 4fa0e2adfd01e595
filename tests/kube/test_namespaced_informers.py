from __future__ import annotations

from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager

import anyio
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.namespaced_informers import MOST_OWN, NamespacedInformers
from koord_kube.protocol.resources import NODES, PODS
from koord_kube.views.metadata import decode_named

from tests.support.kube_api import KubeApi
from tests.support.waiting import until

FEW = frozenset({"n0", "n1"})
MANY = frozenset(f"n{number}" for number in range(30))
CONNECTIONS = MOST_OWN + 3
"""Of a client: those of ``MOST_OWN``, of two of all namespaces, and one for everything else."""


class NamespaceFollower:
    """Informers in both uses: with what they keep, and with a handler that keeps it."""

    def __init__(self, api: KubeApi, client: Client, group: anyio.abc.TaskGroup) -> None:
        self._api, self._group = api, group
        self._handed: dict[str, set[str]] = {}
        timing = ReflectorTiming(first=0.004, cap=0.02)
        self.kept = NamespacedInformers(client, PODS, decode=decode_named, timing=timing)
        self.telling = NamespacedInformers(
            client, PODS, decode=decode_named, on_change=self._changed, timing=timing
        )

    def _changed(self, key: str, _before: object, now: object) -> None:
        namespace = key.partition("/")[0]
        pods = self._handed.setdefault(namespace, set())
        (pods.discard if now is None else pods.add)(key)

    async def follow(self, namespaces: Set[str], *, handled: bool = False) -> None:
        """Until just these are known, with all pods that there are."""
        informers = self.telling if handled else self.kept
        for namespace in self._handed.keys() - namespaces:
            del self._handed[namespace]

        def is_done() -> bool:
            informers.follow(self._group, namespaces)
            return all(map(informers.is_known, namespaces)) and self._seen(handled) == {
                f"{key.namespace}/{key.name}"
                for key in self._api.objects
                if key.resource == PODS and key.namespace in namespaces
            }

        await until(is_done)

    def _seen(self, handled: bool) -> set[str]:
        found = self._handed.values() if handled else map(self.kept.of, ("elsewhere", *MANY))
        return {key for some in found for key in some}


@asynccontextmanager
async def following(api: KubeApi) -> AsyncIterator[NamespaceFollower]:
    for namespace in (*MANY, "elsewhere"):
        api.put(PODS, {"metadata": {"name": "a"}}, namespace)
    limits = Limits(qps=0, connections=CONNECTIONS)
    async with Client(Cluster(api.url), limits) as client, anyio.create_task_group() as group:
        yield NamespaceFollower(api, client, group)
        await anext(client.pages(NODES))  # a connection is left for others
        group.cancel_scope.cancel()


@pytest.mark.parametrize("handled", [False, True])
class TestNamespacedInformers:
    async def test_namespaces_come_and_go(self, api: KubeApi, handled: bool) -> None:
        async with following(api) as namespaces:
            for wanted in (FEW, MANY, MANY - FEW, MANY, MANY - FEW | {"elsewhere"}, FEW, set()):
                await namespaces.follow(wanted, handled=handled)
            await until(lambda: api.open_watches() == 0)

    async def test_changes_arrive_whoever_follows(self, api: KubeApi, handled: bool) -> None:
        async with following(api) as namespaces:
            for name, wanted in (("b", FEW), ("c", MANY), ("d", MANY | {"elsewhere"})):
                await namespaces.follow(wanted, handled=handled)
                api.delete(PODS, "a", "n1")
                api.put(PODS, {"metadata": {"name": name}}, "n0")
                await namespaces.follow(wanted, handled=handled)
                api.put(PODS, {"metadata": {"name": "a"}}, "n1")
            await namespaces.follow(MANY, handled=handled)
