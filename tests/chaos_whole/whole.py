"""All programs of a cluster of one node, on a machine of their own within this one."""

from __future__ import annotations

import contextlib
import http.client
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from koord_demo.programs import console_script
from koord_kube.protocol.resources import NODES
from koord_model.keys import BATCH_CPU

from tests.apiserver.real_cluster import RealCluster, webhooks_at
from tests.chaos_whole.api import Api, RefusedError
from tests.chaos_whole.kubernetes import NODE, USERS, ControllerManager, RealKubelet
from tests.chaos_whole.pods import NAMESPACE
from tests.support.colocation import COLOCATION, PROFILE
from tests.support.containerd import Containerd
from tests.support.koordlet_programs import StatusKoordlet
from tests.support.kube_apiserver import KubeApiserver
from tests.support.manager_program import NAMESPACE as SYSTEM
from tests.support.manager_program import ManagerProgram
from tests.support.own_machine import OwnMachine
from tests.support.processes import Program
from tests.support.proxy import Proxy
from tests.support.scheduler_program import SchedulerProgram

OFFLINE = (OSError, http.client.HTTPException, RefusedError)
"""What asking an API server may come to while it is away."""
_PLUGINS = ("NodeNUMAResource", "Reservation", "ElasticQuota", "Coscheduling")
_SCHEDULING = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": one} for one in _PLUGINS]}},
            # Pods get single threads of a core, too.
            "pluginConfig": [
                {"name": "NodeNUMAResource", "args": {"defaultCPUBindPolicy": "SpreadByPCPUs"}}
            ],
        }
    ],
}
_WORKLOADS = [
    {
        "target": {"kind": kind},
        "patch": f"{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: any}}, $patch: delete}}",
    }
    for kind in ("DaemonSet", "Deployment")
]
"""What deploy/ would run is run by us."""
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "none",
    # Nobody asks for it: all pods are in the machine's network. A node without any is not ready.
    "plugins": [{"type": "none"}],
}


class _Koordlet(StatusKoordlet):
    def __init__(self, machine: OwnMachine, directory: Path, hooks: Path, *flags: str) -> None:
        super().__init__(directory, hooks, *flags)
        self._machine = machine

    def launch(self) -> None:
        """Start, and wait for nothing."""
        self.spawn([console_script("koordlet"), *self.flags])

    def spawn(self, command: Sequence[str]) -> None:
        super().spawn(self._machine.inside(command))


class _Proxy(Proxy):
    def __init__(self, machine: OwnMachine, directory: Path, backend: Path) -> None:
        super().__init__(directory, backend)
        self._machine = machine

    def spawn(self, command: Sequence[str]) -> None:
        super().spawn(self._machine.inside(command))


class Whole:
    """What runs; ``api`` is an administrator's."""

    def __init__(self, folder: Path, machine: OwnMachine, server: KubeApiserver) -> None:
        self.folder, self.machine, self.server = folder, machine, server
        self.cluster = RealCluster(server, _WORKLOADS)
        self.api = Api(server)
        self.controller_manager = ControllerManager(server)
        self.containerd = Containerd(inside=machine.inside([]))
        self.proxy = _Proxy(machine, folder, self.containerd.address)
        self.kubelet = RealKubelet(server, self.proxy.address)

    def start(self, say: Callable[[str], None]) -> None:
        """Install, and start one program after the other, each as soon as it can be."""
        self.cluster.install()
        say("API server, with our definitions and rights")
        self.controller_manager.start()
        shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.apply(shop, PROFILE)
        self.configure(colocation_config=COLOCATION)
        self._start_node()
        self._start_ours()
        self.kubelet.wait_until(self._offers, "the node offers no batch resources")
        say("the node is ready, and offers batch resources")

    def configure(self, **sections: object) -> None:
        """Set these sections of the SLO configuration, as an administrator does."""
        data = {name.replace("_", "-"): json.dumps(one) for name, one in sections.items()}
        meta = {"name": "slo-controller-config", "namespace": SYSTEM}
        patch = json.dumps({"data": data, "metadata": meta})
        self.cluster.kubectl("patch", "configmap", meta["name"], "-n", SYSTEM, "-p", patch)

    def close(self) -> None:
        """End all; what runs in the machine ends with it."""
        for program in self.programs:
            program.close()
        self.containerd.close()

    @property
    def programs(self) -> list[Program]:
        """All but containerd, the API server and etcd, as far as they were made."""
        names = ("scheduler", "manager", "koordlet", "kubelet", "proxy", "controller_manager")
        return [getattr(self, name) for name in names if hasattr(self, name)]

    def _start_node(self) -> None:
        conf = self.containerd.directory / "cni"
        conf.mkdir()
        (conf / "10-none.conflist").write_text(json.dumps(_NETWORK))
        self.containerd.start()
        self.proxy.start()
        self.kubelet.start()
        self.koordlet = _Koordlet(
            self.machine,
            self.folder,
            self.proxy.hooks,
            f"--kubeconfig={self._kubeconfig('koordlet')}",
            f"--kubelet-ca-file={self.kubelet.authority}",
            f"--node-name={NODE}",
            f"--var-lib-kubelet-dir={self.kubelet.root}",
            "--feature-gates=CPUAllocatableEvict=true",
        )
        self.koordlet.launch()

    def _start_ours(self) -> None:
        host, inside = self.machine.address, self.machine.inside([])
        manager = self._kubeconfig("koord-manager")
        self.manager = ManagerProgram(
            "manager",
            self.folder,
            manager,
            # A batch pod that is made while it is away would be a plain one.
            "--webhook-configuration-failure-policy-pods=Fail",
            host=host,
            inside=inside,
        )
        self.manager.start()
        config = self.folder / "scheduler.json"
        config.write_text(json.dumps(_SCHEDULING))
        self.scheduler = SchedulerProgram(
            "scheduler",
            self.folder,
            self._kubeconfig("koord-scheduler"),
            f"--config={config}",
            "--leader-elect-resource-name=koord-scheduler",
            f"--leader-elect-resource-namespace={SYSTEM}",
            host=host,
            inside=inside,
        )
        self.scheduler.start()
        self.manager.wait_until(lambda: self.manager.ready, "is not ready")
        self.cluster.apply(webhooks_at(self.manager))
        self.proxy.wait_for_server("koordlet")

    def _kubeconfig(self, account: str) -> Path:
        return self.server.kubeconfig(account, self.cluster.token(account))

    def _offers(self) -> bool:
        try:
            return BATCH_CPU in self.api.get(NODES, NODE)["status"]["allocatable"]
        except RefusedError:
            return False


@contextlib.contextmanager
def whole(say: Callable[[str], None]) -> Iterator[Whole]:
    """A whole cluster, running; nothing is left of it afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-w-") as name,
        OwnMachine(Path(name)) as machine,
        KubeApiserver(Path(name), machine, USERS) as server,
    ):
        made = Whole(Path(name), machine, server)
        try:
            made.start(say)
            yield made
        finally:
            made.close()
