"""Kubernetes' own programs beside the API server: controller-manager and kubelet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support import containerd, kube_apiserver, own_machine
from tests.support.certificates import make_certificates
from tests.support.kube_apiserver import ADMIN, KubeApiserver, find_program
from tests.support.processes import Program

NODE = "this-machine"
KUBELET_TOKEN = "kubelet-token"
USERS = ((KUBELET_TOKEN, f"system:node:{NODE}", NODE, "system:nodes"),)
RESERVED = {"cpu": 0, "memory": 256 << 20}
"""What the kubelet keeps back: millicores (two pods may have a CPU each) and bytes."""


def why_not() -> str | None:
    """What keeps a whole cluster from running here, in one line; None where nothing does."""
    names = ("etcd", "kube-apiserver", "kube-controller-manager", "kubelet", "kubectl")
    missing = [name for name in names if find_program(name) is None]
    if missing:
        return f"neither in {kube_apiserver.ASSETS} nor on PATH: {', '.join(missing)}"
    return kube_apiserver.why_not() or own_machine.why_not() or containerd.why_not()


class ControllerManager(Program):
    """kube-controller-manager: what gives namespaces their account, and gone nodes' pods an end."""

    def __init__(
        self, server: KubeApiserver, flags: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__("kube-controller-manager", server.folder)
        self._server = server
        self._flags = flags

    def start(self) -> None:
        """Start it, and wait for nothing."""
        server = self._server
        flags = {
            "kubeconfig": server.kubeconfig("controller-manager", ADMIN),
            "bind-address": server.network.address,
            "cert-dir": self.directory / "controller-manager",
            "leader-elect": "false",
            "root-ca-file": server.authority,
            "service-account-private-key-file": server.key,
            **self._flags,
        }
        command = [find_program(self.name) or "", *(f"--{key}={flags[key]}" for key in flags)]
        self.spawn(server.network.inside(command))


class RealKubelet(Program):
    """The kubelet of this machine, for whatever CRI socket it is given."""

    def __init__(self, server: KubeApiserver, runtime: Path) -> None:
        super().__init__("kubelet", server.folder)
        self._server = server
        self.root = self.directory / "var-lib-kubelet"
        names = f"IP:{server.network.address},DNS:{NODE}"
        certificates = make_certificates(self.directory / "kubelet-certificates", names)
        self.authority = certificates.authority
        self._config = self.directory / "kubelet.json"
        config = _config(server.network.address, f"unix://{runtime}", self.directory)
        config["tlsCertFile"] = str(certificates.certificate)
        config["tlsPrivateKeyFile"] = str(certificates.key)
        self._config.write_text(json.dumps(config))

    def start(self) -> None:
        """Start it, and wait for nothing."""
        flags = {
            "config": self._config,
            "kubeconfig": self._server.kubeconfig("kubelet", KUBELET_TOKEN),
            "hostname-override": NODE,
            "node-ip": self._server.network.address,
            "root-dir": self.root,
        }
        command = [find_program(self.name) or "", *(f"--{key}={flags[key]}" for key in flags)]
        self.spawn(self._server.network.inside(command))


def _config(address: str, runtime: str, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": runtime,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": dict.fromkeys(_SIGNALS, "0%"),
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        "systemReserved": {"memory": str(RESERVED["memory"])},
        "volumePluginDir": str(folder / "volume-plugins"),
    }


_SIGNALS: Sequence[str] = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)
