from __future__ import annotations

import asyncio
from typing import Any

from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import PODS
from koord_kube.views.pod import ClusterPodDocument
from koord_manager.metrics_apis.core.pods import PodIndex
from koord_manager.program.shared_pods import SharedPods

from tests.support.kube_api import KubeApi
from tests.support.waiting import until


async def test_each_reader_hears_of_its_namespaces_and_only_of_what_changes_for_it() -> None:
    heard: list[tuple[str, Any, Any]] = []

    def labels(pod: ClusterPodDocument) -> dict[str, str]:
        return pod.metadata.labels or {}

    def put(namespace: str, app: str, node: str) -> None:
        meta = {"name": "p", "labels": {"app": app}}
        api.put(PODS, {"metadata": meta, "spec": {"nodeName": node}}, namespace)

    def noted(key: str, before: Any, now: Any) -> None:
        heard.append((key, before, now))

    async with (
        KubeApi() as api,
        Client(Cluster(api.url)) as client,
        asyncio.TaskGroup() as group,
    ):
        put("a", "1", "")
        put("b", "1", "")
        pods = SharedPods(client, PodIndex(), on_warning=heard.clear)
        phases = pods.some(lambda pod: pod.status.phase)
        some = pods.some(labels, noted)
        task = group.create_task(pods.informer.run())
        some.follow(group, {"b"})
        assert not some.is_known("b")
        await until(lambda: some.is_known("b"))
        assert heard == [("b/p", None, {"app": "1"})]
        some.follow(group, {"a"})
        assert (dict(some.of("a")), dict(some.of("b"))) == ({"a/p": {"app": "1"}}, {})
        assert not phases.is_known("a")
        put("a", "1", "n1")
        put("b", "2", "n1")
        put("a", "2", "n1")
        await until(lambda: len(heard) == 3)
        assert heard[1:] == [("a/p", None, {"app": "1"}), ("a/p", {"app": "1"}, {"app": "2"})]
        api.delete(PODS, "p", "a")
        await until(lambda: heard[3:] == [("a/p", {"app": "2"}, None)])
        assert [pod.node for pod in pods.index.of()] == ["n1"]
        task.cancel()
