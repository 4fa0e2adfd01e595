"""A whole cluster around one node: API server, kubelet, and the node's files; and koordlet there.

All doubles run in the test's event loop; koordlet is a process of its own that knows of
them what its settings and its service account say.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import NODE_METRICS, NODE_SLOS, NODE_TOPOLOGIES, NODES

from tests.support.certificates import Certificates, make_certificates
from tests.support.kube_api import KubeApi
from tests.support.kubelet_server import KubeletServer, listed
from tests.support.processes import Program
from tests.support.simulated_node import SimulatedNode

NAME = "node-1"
MANAGERS = "managers.test"
"""What resolves to the addresses in ``HURRIED_MANAGERS``."""

KUBELET_HAS = 5.0
"""Seconds to answer in."""

_PROGRAM = Path(__file__).with_name("hurried_koordlet.py")
TOKEN, ACCOUNT_TOKEN = "token-of-the-kubeconfig-0", "token-of-the-service-account-0"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: emulated, user: koordlet}}}}]
clusters: [{{name: emulated, cluster: {{server: "{server}", certificate-authority: {ca}}}}}]
users: [{{name: koordlet, user: {{tokenFile: {token}}}}}]
"""


class Cluster:
    """The doubles and their files, below ``folder`` (a short path: it holds sockets)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = make_certificates(folder / "certificates")
        tls = self.certificates.server_context()
        self.api = KubeApi(tls=tls)
        self.kubelet = KubeletServer(tls)
        self.accept(TOKEN, ACCOUNT_TOKEN)
        self.node = SimulatedNode(folder / "node", pods=4, containers=2, cpus=8)
        self.account = folder / "account"
        self.token_file = folder / "token"
        self.trusted = folder / "kubelets.crt"
        self._applications = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Cluster]:
        """With the API server and the kubelet there, and time passing on the node."""
        async with self.api, self.kubelet, asyncio.TaskGroup() as group:
            self._write_secrets()
            self.list_pods()
            self.put_node()
            self.put_policy()
            self.put_application()
            passing = group.create_task(let_time_pass(self.node))
            yield self
            passing.cancel()

    # What the admin and the control plane do.

    def accept(self, *tokens: str) -> None:
        """Let these tokens be good, and no others: the kubelet asks the API server."""
        self.api.tokens = self.kubelet.tokens = frozenset(tokens)

    def put_node(self, **annotations: str) -> Object:
        """The Node; its kubelet is ours."""
        endpoints = {"kubeletEndpoint": {"Port": self.kubelet.port}}
        node = {
            "metadata": {"name": NAME, "labels": {}, "annotations": annotations},
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": NAME},
                    {"type": "InternalIP", "address": "127.0.0.1"},
                ],
                "daemonEndpoints": endpoints,
                "allocatable": {"cpu": "8", "memory": "256Gi"},
                "capacity": {"cpu": "8", "memory": "256Gi"},
            },
        }
        return self.api.put(NODES, node)

    def put_policy(self, **policy: Any) -> Object:
        """The NodeMetric as the manager makes it, with this policy; its status stays."""
        usual = {
            "aggregateDurationSeconds": 60,
            "reportIntervalSeconds": 1,
            "nodeAggregatePolicy": {"durations": ["2s", "1m"]},
        }
        made: Object = {
            "metadata": {"name": NAME},
            "spec": {"metricCollectPolicy": usual | policy},
        }
        with suppress(KeyError):
            made["status"] = self.api.get(NODE_METRICS, NAME)["status"]
        return self.api.put(NODE_METRICS, made)

    def put_application(self) -> str:
        """A NodeSLO in force shows: it names a host application that no one before did."""
        self._applications += 1
        name = f"application-{self._applications}"
        path = {"base": "CgroupRoot", "relativePath": "kubepods/besteffort"}
        application = {"name": name, "qos": "BE", "cgroupPath": path}
        self.put_slo(hostApplications=[application])
        return name

    def put_slo(self, **spec: Any) -> Object:
        """The NodeSLO, with this and nothing else."""
        return self.api.put(NODE_SLOS, {"metadata": {"name": NAME}, "spec": spec})

    def list_pods(self) -> None:
        """Let the kubelet list what runs."""
        self.kubelet.pods = [listed(one) for one in self.node.records]

    # What koordlet wrote.

    @property
    def status(self) -> Object:
        """The NodeMetric's status; empty while there is none."""
        with suppress(KeyError):
            return dict(self.api.get(NODE_METRICS, NAME).get("status") or {})
        return {}

    @property
    def topology(self) -> Object:
        """The NodeResourceTopology; empty while there is none."""
        with suppress(KeyError):
            return self.api.get(NODE_TOPOLOGIES, NAME)
        return {}

    def patches(self, plural: str) -> list[Any]:
        """The bodies of all patches of a kind so far."""
        found = (one for one in self.api.asked if one.verb == "patch")
        return [one.body for one in found if f"/{plural}/" in one.path]

    async def next_report(self) -> Object:
        """The next status that is written."""
        await self.api.wait_for("patch", self.api.count("patch", "nodemetrics") + 1, "nodemetrics")
        await asyncio.sleep(0)
        return self.status

    # Files.

    def koordlet(self, name: str, *flags: str, **environ: str) -> ClusterKoordlet:
        """koordlet on this node, not yet started; it has files of its own."""
        return ClusterKoordlet(self.folder / name, self.node, NAME, flags, environ)

    @property
    def on_host(self) -> tuple[str, ...]:
        """The flags with which it runs on the host and knows of the cluster."""
        return f"--kubeconfig={self.folder}/kubeconfig", f"--kubelet-ca-file={self.trusted}"

    @property
    def as_pod(self) -> dict[str, str]:
        """The environment in which it runs as a pod of the cluster."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.api.port),
            "HURRIED_ACCOUNT": str(self.account),
        }

    def trust(self, *authorities: Certificates) -> None:
        """Let koordlet trust these."""
        bundle = b"".join(one.authority.read_bytes() for one in authorities)
        for file in (self.account / "ca.crt", self.trusted):
            file.write_bytes(bundle)

    def _write_secrets(self) -> None:
        self.account.mkdir()
        (self.account / "token").write_text(ACCOUNT_TOKEN)
        self.trust(self.certificates)
        self.token_file.write_text(TOKEN)
        kubeconfig = _KUBECONFIG.format(
            server=self.api.url, ca=self.certificates.authority, token=self.token_file
        )
        (self.folder / "kubeconfig").write_text(kubeconfig)


async def let_time_pass(node: SimulatedNode) -> None:
    """Until cancelled."""
    before = time.monotonic()
    while True:
        await asyncio.sleep(0.1)
        now = time.monotonic()
        node.advance(now - before)
        before = now


class ClusterKoordlet(Program):
    """koordlet on a cluster's node of this name, with its own files; its pauses are cut short."""

    def __init__(
        self,
        folder: Path,
        node: SimulatedNode,
        node_name: str,
        flags: Sequence[str],
        environ: Mapping[str, str],
    ) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder.name, folder)
        self.state = folder / "state"
        self._started = 0.0
        root = node.root
        self._environ = {"HURRIED_UNMANAGED": "1", **environ}
        self._flags = [
            f"--runtime-hooks-addr={folder}/k.sock",
            f"--runtime-hooks-host-endpoint={folder}/k.sock",
            f"--runtime-hooks-config-path={folder}/hookserver.d",
            f"--runtime-hooks-nri-socket-path={folder}/nri.sock",
            f"--state-dir={self.state}",
            f"--cgroup-root-dir={root}/cgroup",
            "--cgroup-version=2",
            "--cgroup-driver=cgroupfs",
            f"--proc-root-dir={root}/proc",
            f"--sys-root-dir={root}/sys",
            f"--sys-fs-root-dir={root}/sys/fs",
            f"--var-lib-kubelet-dir={root}/kubelet",
            f"--node-name={node_name}",
            "--kubelet-sync-interval=0.3",
            f"--kubelet-sync-timeout={KUBELET_HAS:g}",
            "--node-topology-sync-interval=0.3",
            "--prediction-training-interval=1",
            f"--metrics-address={folder}/metrics.sock",
            "--log-format=json",
            *flags,
        ]

    def start(self) -> None:
        """Start, and wait for nothing."""
        self._started = time.time()
        environ = [f"{key}={value}" for key, value in self._environ.items()]
        program = [sys.executable, str(_PROGRAM)]
        self.spawn(["env", *environ, *program, *self._flags])

    async def ask(self, page: str, **query: str) -> Any:
        """What it serves to people, in JSON; ``None`` while it serves nothing."""
        found = await self.text(f"{page}?{urlencode(query)}" if query else page)
        return json.loads(found) if found else None

    async def text(self, page: str, socket: str = "status.sock") -> str:
        """A page as it is, whatever its status; "" while nothing is served."""
        connector = aiohttp.UnixConnector(str(self.directory / socket))
        try:
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"http://koordlet{page}") as response,
            ):
                return await response.text()
        except aiohttp.ClientConnectionError:
            assert self._process is None or self._process.poll() is None, self.said[-3000:]
            return ""

    async def value(self, kind: str, **labels: str) -> float | None:
        """A kind's mean of the last minute; ``None`` where there is none."""
        query = {"kind": kind, "window": "60s", "aggregation": "avg"}
        found = await self.ask("/v1/metrics/query", **query, **labels)
        series = found["series"] if found else []
        return float(series[0]["values"]["avg"]) if series else None

    async def state_of(self, name: str) -> dict[str, Any]:
        """Age and problem of one of its sources: "pods", "Node", "NodeSLO" ..."""
        found = await self.ask("/v1/node")
        return dict(found["states"][name]) if found else {"age_seconds": None, "problem": "?"}

    async def knows_application(self, name: str) -> bool:
        """Whether the NodeSLO that names it is in force in this run: it is measured."""
        query = {"kind": "host_application_memory_usage", "host_app_name": name}
        found = await self.ask("/v1/metrics/query", **query)
        return bool(found and found["series"] and found["series"][0]["last"] > self._started)

    def reasons(self, message: str) -> list[str]:
        """The reasons of all lines with a message."""
        return [str(one.get("reason")) for one in self.events(message)]

    def assert_sound(self) -> None:
        """Nothing in its log looks like a defect."""
        for sign in ("Traceback", "Unclosed", "never awaited", "never retrieved", '"error"'):
            assert sign not in self.said, self.said[-3000:]
