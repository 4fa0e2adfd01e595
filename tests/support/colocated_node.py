"""This machine as the node of a cluster: doubles of API server and kubelet, all else is real.

The manager, koordlet and koord-runtime-proxy are processes, containerd runs pods, and their
cgroups are the kernel's. Doubles run in the test's event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koord_kube.client import Client, Cluster
from koord_kube.credentials import server_context
from koord_kube.definitions.catalogue import DEFINITIONS as OURS
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    CONFIG_MAPS,
    DEFINITIONS,
    ELASTIC_QUOTAS,
    MUTATING_WEBHOOKS,
    NODES,
    QUOTA_PROFILES,
)
from koord_manager.program.node_metric_server import CA_CONFIG_MAP

from tests.support.certificates import make_certificates
from tests.support.containerd import Containerd
from tests.support.emulated_manager import EmulatedManager, put_namespaces, put_priority_classes
from tests.support.koordlet_programs import StatusKoordlet
from tests.support.kube_api import USUAL, KubeApi, koordlet_account, service_account
from tests.support.kubelet_server import KubeletServer
from tests.support.kubepods import Kubepods
from tests.support.manager_program import LEADER, NAMESPACE
from tests.support.pod_running import BoundPod, PodRunner, bind
from tests.support.proxy import Proxy
from tests.support.service_account_tokens import unsigned_token
from tests.support.waiting import until

NAME = "this-machine"
SLO_CONFIG = "slo-controller-config"
RESERVED = {"cpu": 100, "memory": 256 << 20}
"""What the kubelet keeps back: millicores and bytes."""

_HURRIED = Path(__file__).with_name("hurried_koordlet.py")
_TOKEN = "token-of-koordlet"
_LEADER_NAME = f"{LEADER}.{NAMESPACE}.svc"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: emulated, user: koordlet}}}}]
clusters: [{{name: emulated, cluster: {{server: "{server}", certificate-authority: {ca}}}}}]
users: [{{name: koordlet, user: {{tokenFile: {token}}}}}]
"""


class ClusterKoordlet(StatusKoordlet):
    """koordlet with its pauses cut short; reports straight to a manager's port, if one is given."""

    def __init__(
        self, directory: Path, hooks: Path, kubeconfig: Path, kubelet_ca: Path, report_port: int = 0
    ) -> None:
        self.authority = directory / "manager-ca.crt"
        straight = [
            f"--node-metric-report-address={_LEADER_NAME}:{report_port}",
            f"--node-metric-report-ca-file={self.authority}",
            f"--node-metric-report-token-file={directory / 'token-for-managers'}",
        ]
        super().__init__(
            directory,
            hooks,
            f"--kubeconfig={kubeconfig}",
            f"--kubelet-ca-file={kubelet_ca}",
            f"--node-name={NAME}",
            "--kubelet-sync-interval=0.5",
            "--runtime-hooks-reconcile-interval=0.5",
            *(straight if report_port else ()),
        )
        self._environ = {
            "HURRIED_ACCOUNT": str(directory),
            "HURRIED_MANAGERS_NAME": _LEADER_NAME,
            "HURRIED_MANAGERS": "127.0.0.1",
        }

    def launch(self) -> None:
        """Start, and wait for nothing."""
        environ = [f"{key}={value}" for key, value in self._environ.items()]
        self.spawn(["env", *environ, sys.executable, str(_HURRIED), *self.flags])

    def decided(self, strategy: str) -> Mapping[str, Any]:
        """The numbers of what a strategy has decided, by name; none where it has not."""
        for one in self.page("/v1/why", strategy=strategy)["decisions"]:
            return {given["name"]: given["value"] for given in one["given"]}
        return {}


@dataclass
class ColocatedNode:
    """What runs; ``client`` is an administrator's."""

    api: KubeApi
    client: Client
    manager: EmulatedManager
    koordlet: ClusterKoordlet
    groups: Kubepods
    runner: PodRunner

    @property
    def node(self) -> Object:
        return self.api.get(NODES, NAME)

    async def configure(self, **sections: Object) -> None:
        """Set these sections of the SLO configuration, as an administrator does."""
        data = {name.replace("_", "-"): json.dumps(one) for name, one in sections.items()}
        await self.client.patch(CONFIG_MAPS, SLO_CONFIG, {"data": data}, NAMESPACE)

    async def run(self, pod: Object, *stress: str) -> BoundPod:
        """Bind a pod that was created to this node, and run it.

        Raises:
            DoesNotFitError: the node's batch resources do not suffice.
        """
        bound = bind(self.api, pod, NAME)
        started = await asyncio.to_thread(self.runner.start, bound, *stress)
        await self.runner.tell(self.client, bound, started)
        return started

    def read(self, group: str, *files: str) -> dict[str, int]:
        """What files of a cgroup hold."""
        return {file: int(self.groups.read(group, file)) for file in files}


@asynccontextmanager
async def colocated_node(
    folder: Path, containerd: Containerd, groups: Kubepods, *, direct: bool = False
) -> AsyncIterator[ColocatedNode]:
    """Everything, with files in ``folder`` (a short path: it holds sockets).

    ``direct``: nodes report straight to the manager, and not by the API server.
    """
    certificates = make_certificates(folder / "certificates")
    tls = certificates.server_context()
    front = make_certificates(folder / "front")
    installed = USUAL | {ELASTIC_QUOTAS, QUOTA_PROFILES}
    api = KubeApi(tls=tls, installed=installed, front_proxy=front)
    for definition in OURS:
        api.put(DEFINITIONS, definition)
    put_namespaces(api)
    put_priority_classes(api)
    meta = {"name": SLO_CONFIG, "namespace": NAMESPACE}
    api.put(CONFIG_MAPS, {"metadata": meta, "data": {}}, NAMESPACE)
    kubelet = KubeletServer(tls)
    kubelet.tokens = frozenset({_TOKEN})
    who = service_account("koordlet", NAMESPACE, node=NAME, pod="koordlet-1")
    api.access.identities[_TOKEN] = who
    (folder / "token").write_text(_TOKEN)
    api.access.identities[unsigned_token()] = koordlet_account(NAME, pod="koordlet-1")
    (folder / "token-for-managers").write_text(unsigned_token())
    trusted = server_context(certificates.authority)
    async with api, kubelet, Client(Cluster(api.url, context=trusted)) as client:
        api.put(NODES, node_object(kubelet.port))
        kubeconfig = _KUBECONFIG.format(
            server=api.url, ca=certificates.authority, token=folder / "token"
        )
        (folder / "kubeconfig").write_text(kubeconfig)
        manager = _manager(folder, api, certificates.authority, direct=direct)
        proxy = Proxy(folder, containerd.address)
        port = manager.report_port if direct else 0
        authority = certificates.authority
        koordlet = ClusterKoordlet(folder, proxy.hooks, folder / "kubeconfig", authority, port)
        runner = PodRunner(groups, kubelet, proxy.address)
        node = ColocatedNode(api, client, manager, koordlet, groups, runner)
        try:
            await _start(node, proxy, direct=direct)
            yield node
        finally:
            await asyncio.to_thread(runner.thaw_all)
            # Shown by pytest if anything fails.
            for program in (manager, koordlet, proxy):
                print(program.said[-6000:])
                program.close()
            await asyncio.to_thread(containerd.remove_all_pods)


async def _start(node: ColocatedNode, proxy: Proxy, *, direct: bool) -> None:
    node.manager.start()
    await asyncio.to_thread(proxy.start)
    await until(lambda: asyncio.to_thread(lambda: node.manager.ready), "the manager is ready")
    await until(lambda: _webhooks_trusted(node.api), "the API server knows the webhooks")
    if direct:
        bundle = await until(lambda: _bundle(node.api), "the manager says whom to trust")
        node.koordlet.authority.write_text(bundle)
    node.koordlet.launch()
    await asyncio.to_thread(proxy.wait_for_server, "koordlet")


def _manager(folder: Path, api: KubeApi, authority: Path, *, direct: bool) -> EmulatedManager:
    flags = ("--noderesource-interval=0.5",)
    if direct:
        flags += ("--enable-node-metric-api",)
    made = EmulatedManager("manager", folder, api, *flags, authority=authority)
    made.serve_webhooks()
    made.serve_node_metrics()
    return made


def _webhooks_trusted(api: KubeApi) -> bool:
    found = [one for key, one in api.objects.items() if key.resource == MUTATING_WEBHOOKS]
    return bool(found) and all(
        webhook["clientConfig"].get("caBundle") for one in found for webhook in one["webhooks"]
    )


def _bundle(api: KubeApi) -> str:
    try:
        return str(api.get(CONFIG_MAPS, CA_CONFIG_MAP, NAMESPACE)["data"]["ca.crt"])
    except KeyError:
        return ""


def node_object(kubelet_port: int) -> Object:
    """The Node as this machine's kubelet would say it."""
    cpus = len(os.sched_getaffinity(0)) * 1000
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    capacity = {"cpu": f"{cpus}m", "memory": f"{memory >> 10}Ki"}
    left = {
        "cpu": f"{cpus - RESERVED['cpu']}m",
        "memory": f"{(memory - RESERVED['memory']) >> 10}Ki",
    }
    return {
        "metadata": {"name": NAME},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
            "capacity": capacity,
            "allocatable": left,
        },
    }
