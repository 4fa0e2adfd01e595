"""NodeMetrics as an aggregated API behind a real API server, and nodes that report straight."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from koord_kube.credentials import TokenFile
from koord_model.service_account_token import MANAGER_AUDIENCE
from koordlet.metrics_reporter.direct_link import DirectLink, LinkError, Metadata, Place

from tests.apiserver.real_cluster import RealCluster, node, pod
from tests.support.kube_apiserver import ADMIN
from tests.support.manager_program import LEADER, NAMESPACE, QUICK, ManagerProgram
from tests.support.service_account_tokens import unsigned_token
from tests.support.waiting import until

API = "v1alpha1.metrics.koordinator.sh"
SERVED = f"nodemetrics.{API}"
GROUP_VERSION = "metrics.koordinator.sh/v1alpha1"
FLAGS = (*QUICK, "--enable-node-metric-api=true")
NODES = ("n1", "n2")
_AUDIENCE = f"--audience={MANAGER_AUDIENCE}"
CPU = {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "1500m", "memory": "2Gi"}}}}


class Link(DirectLink):
    """Finds the leader as its Service does, by its only EndpointSlice."""

    def __init__(self, cluster: RealCluster, name: str, token: str) -> None:
        ca = cluster.server.folder / "managers.crt"
        data = cluster.get("cm", "koordinator-manager-ca", "-n", NAMESPACE)["data"]
        ca.write_text(data["ca.crt"])
        at = f"{LEADER}.{NAMESPACE}.svc:9444"
        file = _file(cluster, token)
        super().__init__(at, name, ca_file=str(ca), credentials=TokenFile(file))
        self._cluster = cluster

    async def _resolved(self, host: str, port: int, tried: dict[str, str]) -> list[Place]:
        words = ("endpointslice", f"{LEADER}-ipv4", "-n", NAMESPACE)
        found = await asyncio.to_thread(self._cluster.get, *words)
        (at,) = [one["port"] for one in found["ports"] if one["name"] == "report"]
        return [(one["addresses"][0], at) for one in found.get("endpoints") or []]

    async def report(self, cores: int = 1500) -> None:
        usage = {"resources": {"cpu": f"{cores}m", "memory": "2Gi"}}
        status = json.dumps({"nodeMetric": {"nodeUsage": usage}}).encode()
        await self.send(status, time.time(), 20)


class OlderLink(Link):
    """Of a koordlet that sends whatever token it has."""

    async def _metadata(self) -> Metadata:
        return (("authorization", await self._credentials.header()),)


async def leading(cluster: RealCluster, name: str, *flags: str) -> ManagerProgram:
    made = await cluster.started(name, *(flags or FLAGS))
    await until(lambda: made.leads, "it leads")
    await until(lambda: available(cluster) == "True", "the API server finds it")
    return made


def available(cluster: RealCluster) -> str:
    try:
        conditions = cluster.get("apiservice", API)["status"]["conditions"]
    except (RuntimeError, KeyError):
        return ""
    return str({one["type"]: one["status"] for one in conditions}["Available"])


@asynccontextmanager
async def reporting(cluster: RealCluster, cores: int = 1500) -> AsyncIterator[tuple[Link, Link]]:
    """Those of the koordlets on all nodes; each has reported once."""
    template = cluster.get("daemonset", "koordlet", "-n", NAMESPACE)["spec"]["template"]
    for name in NODES:
        meta = {**template["metadata"], "name": f"koordlet-{name}", "namespace": NAMESPACE}
        spec = {**template["spec"], "nodeName": name}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        cluster.apply(node(name), made)
    first, second = (Link(cluster, name, bound(cluster, name)) for name in NODES)
    try:
        for one in (first, second):
            await one.report(cores)
        await until(lambda: _tried(cluster, "get", SERVED), "both are there")
        yield first, second
    finally:
        for one in (first, second):
            await one.close()


def bound(cluster: RealCluster, name: str) -> str:
    """The token that the kubelet gives the koordlet on a node."""
    words = ("--bound-object-kind=Pod", f"--bound-object-name=koordlet-{name}")
    return cluster.token("koordlet", *words, _AUDIENCE)


async def test_kubectl(cluster: RealCluster) -> None:
    await leading(cluster, "m1")
    async with reporting(cluster):
        head, *lines = cluster.kubectl("get", SERVED).splitlines()
    assert head.split() == ["NAME", "CPU", "MEMORY", "AGE", "HEALTHY"]
    assert [line.split()[:3] for line in lines] == [[one, "1500m", "2048Mi"] for one in NODES]
    assert cluster.kubectl("get", "nodemetrics").splitlines()[0] == head
    at = "/apis/metrics.koordinator.sh/v1alpha1/nodemetrics/n1"
    for found in (json.loads(cluster.kubectl("get", "--raw", at)), cluster.get(SERVED, "n1")):
        assert found["status"] == CPU
    listed = cluster.kubectl("api-resources", "--api-group=metrics.koordinator.sh")
    assert listed.splitlines()[1].split() == ["nodemetrics", GROUP_VERSION, "false", "NodeMetric"]
    # The API server takes documents in late.
    explain = ("explain", "nodemetrics.status.nodeMetric", f"--api-version={GROUP_VERSION}")
    await until(lambda: "aggregatedNodeUsages" in _tried(cluster, *explain), "OpenAPI v3")
    v2 = ("get", "--raw", "/openapi/v2")
    definition = "sh.koordinator.metrics.v1alpha1.NodeMetric"
    await until(lambda: definition in _tried(cluster, *v2), "OpenAPI v2")
    with pytest.raises(RuntimeError, match="read-only"):
        cluster.kubectl("delete", SERVED, "n1")


async def test_who_may_read(cluster: RealCluster) -> None:
    await leading(cluster, "m1")
    async with reporting(cluster):
        cluster.kubectl("create", "sa", "reader", "-n", NAMESPACE)
        token = cluster.token("reader")
        with pytest.raises(RuntimeError, match='cannot list resource "nodemetrics" in API group'):
            cluster.kubectl("get", SERVED, token=token)
        role = ("--clusterrole=koordinator-view", f"--serviceaccount={NAMESPACE}:reader")
        cluster.kubectl("create", "clusterrolebinding", "reader", *role)
        await until(lambda: _tried(cluster, "get", SERVED, token=token), "it counts")


async def test_who_may_report(cluster: RealCluster) -> None:
    await leading(cluster, "m1")
    cluster.kubectl("create", "sa", "other", "-n", NAMESPACE)
    async with reporting(cluster):
        for name, token, why in (
            ("n2", bound(cluster, "n1"), 'the token is of node "n1", not of "n2"'),
            ("n1", cluster.token("koordlet", _AUDIENCE), "the token is bound to no pod"),
            ("n1", cluster.token("other", _AUDIENCE), ':other" may not report'),
            ("n1", unsigned_token(), "the token is not good"),
        ):
            other = Link(cluster, name, token)
            with pytest.raises(LinkError) as caught:
                await other.report()
            assert "PERMISSION_DENIED" in str(caught.value)
            assert why in str(caught.value)
            await other.close()
        # Under systemd an administrator makes one that is bound to the node.
        words = ("--bound-object-kind=Node", "--bound-object-name=n1", _AUDIENCE)
        of_node = Link(cluster, "n1", cluster.token("koordlet", *words))
        await of_node.report()
        await of_node.close()


async def test_the_two_tokens_of_a_koordlet_are_each_good_for_one_thing(
    cluster: RealCluster,
) -> None:
    await leading(cluster, "m1")
    async with reporting(cluster):
        with pytest.raises(RuntimeError, match="Unauthorized"):
            cluster.kubectl("get", "nodes", token=bound(cluster, "n1"))
        words = ("--bound-object-kind=Pod", "--bound-object-name=koordlet-n1")
        for_api = cluster.token("koordlet", *words)
        cluster.kubectl("get", "nodes", token=for_api)
        older = OlderLink(cluster, "n1", for_api)
        with pytest.raises(LinkError, match=r"PERMISSION_DENIED.*update koordlet"):
            await older.report()
        await older.close()


async def test_nobody_serves_it(cluster: RealCluster) -> None:
    """All else goes on, but for what has to know of all kinds that there are."""
    manager = await leading(cluster, "m1")
    await asyncio.to_thread(manager.stop)
    await until(lambda: available(cluster) == "False", "the API server knows")
    cluster.namespace("default")
    cluster.namespace("short")
    cluster.apply(pod("p", "default", {}, {}))
    cluster.kubectl("get", "nodemetrics.v1alpha1.slo.koordinator.sh")
    assert cluster.kubectl("api-resources")
    with pytest.raises(RuntimeError, match="currently unable to handle the request"):
        cluster.kubectl("get", "--raw", f"/apis/{GROUP_VERSION}/nodemetrics")
    # What the namespace controller goes by: it deletes none while a group cannot be looked at.
    await until(lambda: _freshness(cluster, "Stale"), "it is not looked at")
    (condition,) = cluster.get("apiservice", API)["status"]["conditions"]
    assert condition["reason"] == "MissingEndpoints"
    again = await leading(cluster, "m2")
    assert again.leads
    await until(lambda: _freshness(cluster, "Current"), "it is again")


def _freshness(cluster: RealCluster, wanted: str) -> bool:
    """Whether aggregated discovery says so of the group's version."""
    accepted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    headers = {"Authorization": f"Bearer {ADMIN}", "Accept": accepted}
    asked = urllib.request.Request(f"{cluster.server.url}/apis", headers=headers)
    context = ssl.create_default_context(cafile=str(cluster.server.authority))
    with urllib.request.urlopen(asked, context=context, timeout=10) as answer:
        items = json.load(answer)["items"]
    (group,) = [one for one in items if one["metadata"]["name"] == "metrics.koordinator.sh"]
    return bool(group["versions"][0].get("freshness") == wanted)


def _tried(cluster: RealCluster, *words: str, **more: str) -> str:
    """What kubectl prints, "" while it fails."""
    try:
        return cluster.kubectl(*words, **more)
    except RuntimeError:
        return ""


def _file(cluster: RealCluster, token: str) -> Path:
    made = cluster.server.folder / f"token-{secrets.token_hex(4)}"
    made.write_text(token)
    return made
