"""The cluster's page of a manager with every gate on, from the first second of its life."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.request import urlopen

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import (
    ELASTIC_QUOTAS,
    LEASES,
    NODE_METRICS,
    NODES,
    PODS,
    QUOTA_PROFILES,
)
from koord_manager.program.gates import DEFAULTS

from tests.manager.program.test_manager import (
    NAME,
    NAMESPACE,
    SETTINGS,
    Side,
    nobody_is_to_find_another,
)
from tests.support.browser import Dom, needs_chromium, visit
from tests.support.certificates import HAVE_OPENSSL
from tests.support.colocation import metric_status
from tests.support.kube_api import USUAL, KubeApi
from tests.support.ports import free_port
from tests.support.quota_cluster import quota_object

__all__ = ["nobody_is_to_find_another"]
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates"),
]


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    async with (
        KubeApi(installed=USUAL | {ELASTIC_QUOTAS, QUOTA_PROFILES}) as api,
        Client(Cluster(api.url), Limits(qps=0)) as client,
    ):
        yield Side(api, client)


@asynccontextmanager
async def serving(side: Side, port: int, **more: Any) -> AsyncIterator[str]:
    """A manager with every gate on; its page's address."""
    settings = replace(
        SETTINGS,
        metrics_addr=f"127.0.0.1:{port}",
        feature_gates=tuple(f"{gate}=true" for gate in DEFAULTS),
        enable_node_metric_api=True,
        pod_ip="127.0.0.1",
        node_metric_api_address="127.0.0.1:0",
        node_metric_report_address="127.0.0.1:0",
        noderesource_interval=0.1,
        **more,
    )
    running = asyncio.gather(side.manager(settings).serve())
    await side.until(lambda: is_listening(port))
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def shown(url: str, **more: Any) -> Dom:
    return Dom(await asyncio.to_thread(visit, url, **more))


async def document(url: str) -> dict[str, Any]:
    def read() -> Any:
        with urlopen(f"{url}v1/cluster") as answer:
            return json.load(answer)

    return await asyncio.to_thread(read)  # type: ignore[no-any-return]


def hold_lease(side: Side, holder: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now}
    lease = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec}
    side.api.put(LEASES, lease, NAMESPACE)


async def test_from_the_first_second_by_another_leader_to_its_own_nodes(side: Side) -> None:
    amounts = {"cpu": "8", "memory": "8Gi", "kubernetes.io/batch-cpu": "4000"}
    side.api.put(NODES, {"metadata": {"name": "n1"}, "status": {"capacity": amounts}})
    status = metric_status("shop", "web", 2.0)
    side.api.put(NODE_METRICS, {"metadata": {"name": "n1"}, "status": status})
    team = quota_object("team", {"cpu": "8"}, {"cpu": "4"}, "")
    team["status"] = {"used": {"cpu": "6"}}
    side.api.put(ELASTIC_QUOTAS, team, "q")
    pod = {"metadata": {"name": "m2", "namespace": NAMESPACE}, "status": {"podIP": "10.1.2.3"}}
    side.api.put(PODS, pod, NAMESPACE)
    hold_lease(side, "m2_7")
    port = free_port()
    async with serving(side, port) as url:
        first = await shown(url, judged=True)
        assert first.by_id("role")["class"] == "badge muted", "it does not lead"
        while not (await document(url))["leader_address"]:
            await asyncio.sleep(0.1)
        other = await shown(url)
        assert [one["href"] for tag, one in other.tags if tag == "a"] == [
            f"http://10.1.2.3:{port}/"
        ]
        assert side.api.count("get", "pods") == 1, "not at each look"
        hold_lease(side, "")
        while not (await document(url)).get("complete"):
            await asyncio.sleep(0.1)
        page = await shown(url, judged=True)
    assert page.by_id("role")["class"] == "badge ok"
    [node] = [row for row in page.rows if row and row[0].startswith("n1")]
    assert node[:2] == ["n1 takes no pods", "25 %"]
    [quota] = [row for row in page.rows if row and row[0] == "team"]
    assert (quota[2], quota[-1]) == ("6", "2")
