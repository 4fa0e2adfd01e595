"""NodeMetrics as an aggregated API: two managers behind an API server, and its usual clients.

The API server is the double, which passes requests on as kube-aggregator does; managers, TLS,
informers, the official Python client and kubectl are real.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.informer import Informer
from koord_kube.protocol.resources import (
    API_SERVICES,
    ENDPOINT_SLICES,
    SERVED_NODE_METRICS,
)
from koord_manager.node_metric.publisher import API_SERVICE, LeaderEndpoint, LeaderPublisher

from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.kube_api import USUAL, KubeApi
from tests.support.metrics_service import READER, Manager, make_manager
from tests.support.processes import PATIENCE
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

KUBECTL = shutil.which("kubectl")
NAMESPACE, SERVICE = "koordinator-system", "koord-manager-leader"
NAME = f"DNS:{SERVICE}.{NAMESPACE}.svc,IP:127.0.0.1,DNS:localhost"


@dataclass
class Deployed:
    """Two managers of which one leads at a time, and the API server before them."""

    api: KubeApi
    managers: tuple[Manager, Manager]
    term: int = 100

    async def lead(self, which: int) -> Manager:
        """Let one lead, and the other no more; as the Lease and the Service would."""
        leader, other = self.managers[which], self.managers[1 - which]
        other.resign()
        self.term += 7
        leader.lead(self.term)
        ports = {"api": leader.service.api_port}
        async with Client(Cluster(self.api.url)) as client:
            await LeaderPublisher(
                client, LeaderEndpoint(SERVICE, NAMESPACE, "127.0.0.1", ports)
            ).publish()
        self._route()
        return leader

    def _route(self) -> None:
        """Send the Service's connections to its only endpoint, as kube-proxy does."""
        found = self.api.get(ENDPOINT_SLICES, f"{SERVICE}-ipv4", NAMESPACE)
        (endpoint,), (port,) = found["endpoints"], found["ports"]
        place = (endpoint["addresses"][0], port["port"])
        self.api.services[NAMESPACE, SERVICE, 443] = place

    async def trust(self) -> None:
        """What the keeper of certificates writes into the APIService."""
        pem = self.managers[0].certificates.authority.read_bytes()
        found = self.api.get(API_SERVICES, API_SERVICE)
        found["spec"]["caBundle"] = base64.b64encode(pem).decode()
        self.api.put(API_SERVICES, found)
        await self.api.check_services()


@pytest.fixture
async def deployed(tmp_path: Path) -> AsyncIterator[Deployed]:
    front = make_certificates(tmp_path / "front")
    certificates = make_certificates(tmp_path / "server", NAME)
    managers = tuple(Manager(tmp_path, certificates, front) for _ in range(2))
    installed = USUAL | {API_SERVICES, ENDPOINT_SLICES}
    async with KubeApi(installed=installed, front_proxy=front) as api:
        for manager in managers:
            await manager.start()
            assert await manager.service._read_front_proxy() == ""
        made = Deployed(api, (managers[0], managers[1]))
        await made.lead(0)
        await made.trust()
        yield made
        for manager in managers:
            await manager.service.stop()


async def test_the_api_server_finds_the_leader(deployed: Deployed) -> None:
    def available() -> str:
        status = deployed.api.get(API_SERVICES, API_SERVICE)["status"]
        return str(status["conditions"][0]["status"])

    assert available() == "True"
    deployed.managers[0].resign()
    await deployed.api.check_services()
    assert available() == "False"
    await deployed.lead(1)
    await deployed.api.check_services()
    assert available() == "True"


async def test_an_informer_follows_across_fail_overs(deployed: Deployed) -> None:
    first = deployed.managers[0]
    first.put("n1", "n2", "n3")
    changes: list[tuple[str, bool]] = []
    versions: list[int] = []

    def changed(key: str, _before: Any, after: Any) -> None:
        changes.append((key, after is not None))
        if after is not None:
            versions.append(int(after["metadata"]["resourceVersion"]))

    async with Client(Cluster(deployed.api.url)) as client:
        informer = Informer(
            client,
            SERVED_NODE_METRICS,
            decode=json.loads,
            on_change=changed,
            timing=ReflectorTiming(first=0.05, cap=0.2),
        )
        running = asyncio.get_running_loop().create_task(informer.run())
        try:
            await until(lambda: set(informer.objects) == {"n1", "n2", "n3"})
            first.put("n1", "n4")
            await until(lambda: "n4" in informer.objects)
            # Nobody is taken for gone while nodes have yet to report to the new leader.
            first.resign()
            second = await deployed.lead(1)
            second.now -= 75
            second.put("n1", "n2")
            await until(lambda: informer.problem)
            assert set(informer.objects) == {"n1", "n2", "n3", "n4"}
            second.put("n3")
            second.now += 75
            await until(lambda: set(informer.objects) == {"n1", "n2", "n3"})
            assert ("n4", False) in changes
            # And back again, to one that had led before.
            third = await deployed.lead(0)
            third.put("n1", "n5")
            await until(lambda: set(informer.objects) == {"n1", "n5"})
        finally:
            running.cancel()
    assert versions == sorted(versions)


class Kubectl:
    """kubectl as a person runs it, straight at the manager."""

    def __init__(self, manager: Manager, folder: Path) -> None:
        assert KUBECTL is not None
        self._command = [
            KUBECTL,
            f"--server={manager.url}",
            f"--token={READER}",
            f"--certificate-authority={manager.certificates.authority}",
            f"--cache-dir={folder / 'kubectl'}",
        ]
        self._environ = {**os.environ, "KUBECONFIG": os.devnull, "HOME": str(folder)}

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = [*self._command, *words]
        return await asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, env=self._environ
        )

    async def run(self, *words: str) -> str:
        process = await self.start(*words)
        async with asyncio.timeout(PATIENCE):
            said, error = await process.communicate()
        assert process.returncode == 0, error
        return said.decode()


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    made = make_manager(tmp_path)
    await made.start()
    made.lead(5000)
    made.put("n1", "n2", "n3")
    yield made
    await made.service.stop()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_gets(manager: Manager, tmp_path: Path) -> None:
    kubectl = Kubectl(manager, tmp_path)
    table = (await kubectl.run("get", "nodemetrics", "--chunk-size=2")).splitlines()
    assert table[0].split() == ["NAME", "CPU", "MEMORY", "AGE", "HEALTHY"]
    assert [line.split()[:3] for line in table[1:]] == [
        [name, "1500m", "2048Mi"] for name in ("n1", "n2", "n3")
    ]
    shown = json.loads(await kubectl.run("get", "nodemetrics", "n2", "-o", "json"))
    assert shown["status"]["nodeMetric"]["nodeUsage"]["resources"]["memory"] == "2Gi"
    manager.now += 200
    manager.put("n1")
    await manager.service.age()
    table = (await kubectl.run("get", "nodemetrics")).splitlines()
    assert table[1].split()[-1] == "True"
    assert table[2].split()[-2:] == ["False", "(3m)"]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_explains(manager: Manager, tmp_path: Path) -> None:
    kubectl = Kubectl(manager, tmp_path)
    version = json.loads(await kubectl.run("version", "--client", "-o", "json"))["clientVersion"]
    if int(version["minor"].rstrip("+")) < 27:
        pytest.skip("this kubectl asks for OpenAPI in protobuf, which only the API server has")
    said = await kubectl.run("explain", "nodemetrics.status.nodeMetric")
    assert "aggregatedNodeUsages" in said
    said = await kubectl.run("explain", "nodemetrics", "--recursive")
    assert "podsMetric" in said


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_watches(manager: Manager, tmp_path: Path) -> None:
    process = await Kubectl(manager, tmp_path).start("get", "nodemetrics", "-w", "--no-headers")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            for name in ("n1", "n2", "n3"):
                assert (await process.stdout.readline()).split()[0] == name.encode()
            await until(lambda: manager.service.served.watches == 1)
            manager.put("n2", status=b"{}")
            line = await process.stdout.readline()
            assert line.split()[:2] == [b"n2", b"<unknown>"]
    finally:
        process.kill()
        await process.wait()
