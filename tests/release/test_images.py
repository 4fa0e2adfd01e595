"""The images run by runc as in Koordinator's manifests: command, arguments and mounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from koord_model.version import VERSION

from tests.apiserver.real_cluster import RealCluster
from tests.support import kube_apiserver
from tests.support.koordinator_arguments import (
    COMMANDS,
    DESCHEDULER,
    DEVICE_DAEMON,
    KOORDLET,
    MANAGER,
    MANIFESTS,
    PROXY,
    SCHEDULER,
)
from tests.support.kube_apiserver import KubeApiserver
from tests.support.network import OwnNetwork
from tests.support.processes import Program

LAYOUT = Path(__file__).parents[2] / "dist" / "images"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LEASES = {
    MANAGER: "koordinator-manager",
    SCHEDULER: "koord-scheduler",
    DESCHEDULER: "koord-descheduler",
}
CONFIGURATIONS = {
    SCHEDULER: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "leaderElection: {resourceName: koord-scheduler, resourceNamespace: koordinator-system}\n"
    "profiles: [{schedulerName: koord-scheduler}]\n",
    DESCHEDULER: "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\n"
    "deschedulingInterval: 60s\nprofiles: [{name: koord-descheduler}]\n",
}
HOST = (
    *("/host-cgroup", "/host-etc-hookserver", "/host-run", "/host-sys", "/host-sys-fs"),
    *("/host-var-run", "/host-var-run-koordlet", "/metric-data", "/prediction-checkpoints"),
)
"""Mounts of Koordinator's DaemonSet; here empty folders, so that this machine stays as it is."""


def why_not() -> str | None:
    """Reason why images cannot run here; None where they can."""
    if not LAYOUT.exists():
        return f"no {LAYOUT}: run make release"
    if os.geteuid() != 0:
        return "runc needs root here"
    missing = [program for program in ("umoci", "runc") if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or "-"),
]


class Image:
    """One image, unpacked; it runs once."""

    def __init__(self, program: str, folder: Path) -> None:
        self.bundle = folder / "bundle"
        self.process = Program(program, folder)
        source = f"{LAYOUT}:{program}:{VERSION}"
        subprocess.run(["umoci", "unpack", "--image", source, self.bundle], check=True)
        self._name = f"pykoord-{program}-{os.getpid()}"

    def start(
        self,
        mounts: Mapping[str, Path],
        environ: Mapping[str, str],
        network: str = "/proc/self/ns/net",
    ) -> None:
        """Start Koordinator's command with its arguments, in a network namespace."""
        path = self.bundle / "config.json"
        config = json.loads(path.read_text())
        process, program = config["process"], self.process.name
        process |= {"terminal": False, "args": [COMMANDS[program], *MANIFESTS[program]]}
        process["env"] += [f"{name}={value}" for name, value in environ.items()]
        [own] = (one for one in config["linux"]["namespaces"] if one["type"] == "network")
        own["path"] = network
        config["linux"].pop("resources")
        config["mounts"] = [
            one for one in config["mounts"] if one["type"] not in ("cgroup", "sysfs")
        ]
        config["mounts"] += [
            {"destination": there, "source": str(here), "type": "bind", "options": ["rbind", "rw"]}
            for there, here in mounts.items()
        ]
        path.write_text(json.dumps(config))
        self.process.spawn(["runc", "run", "--bundle", str(self.bundle), self._name])

    def close(self) -> None:
        subprocess.run(["runc", "delete", "--force", self._name], check=False, capture_output=True)
        self.process.close()


@pytest.fixture
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Image]:
    made = Image(request.param, tmp_path)
    yield made
    made.close()
    shutil.rmtree(made.bundle)


def images(*programs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("image", programs, indirect=True)


@images(KOORDLET)
def test_koordlet_registers_where_its_daemon_set_has_it(image: Image, tmp_path: Path) -> None:
    folders = {there: tmp_path / there[1:] for there in HOST}
    for folder in folders.values():
        folder.mkdir()
    image.start(folders, {"NODE_NAME": "node-1"})
    registered = folders["/host-etc-hookserver"] / "koordlet.json"
    image.process.wait_until(registered.exists, "koordlet is registered")
    assert "/var/run/koordlet//koordlet.sock" in registered.read_text()
    assert (folders["/host-var-run-koordlet"] / "koordlet.sock").is_socket()


@images(PROXY)
def test_the_proxy_listens(image: Image, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    image.start({"/var/run": tmp_path / "run"}, {})
    socket = tmp_path / "run/koord-runtimeproxy/runtimeproxy.sock"
    image.process.wait_until(socket.is_socket, "the proxy listens")


@images(DEVICE_DAEMON)
def test_the_device_daemon_looks_for_devices(image: Image) -> None:
    image.start({}, {"NODE_NAME": "node-1"})
    image.process.wait_until(
        lambda: "this node has no PCI bus" in image.process.said, "it looks, where /sys is empty"
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    reason = kube_apiserver.why_not()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("k8s")
    with OwnNetwork() as own, KubeApiserver(folder, own) as server:
        made = RealCluster(server)
        made.install()
        yield made


@images(*LEASES)
def test_the_control_plane_leads_as_nobody(
    image: Image, cluster: RealCluster, tmp_path: Path
) -> None:
    program, server = image.process.name, cluster.server
    account, configuration = tmp_path / "account", tmp_path / "configuration"
    for folder in (account, configuration):
        folder.mkdir()
    (account / "token").write_text(cluster.token(program))
    (account / "namespace").write_text("koordinator-system")
    shutil.copy(server.authority, account / "ca.crt")
    (configuration / f"{program}.config").write_text(CONFIGURATIONS.get(program, ""))
    image.start(
        {ACCOUNT: account, "/config": configuration},
        {
            "KUBERNETES_SERVICE_HOST": server.network.address,
            "KUBERNETES_SERVICE_PORT": server.url.rpartition(":")[2],
            "POD_NAME": "pod-1",
            "POD_IP": server.network.address,
        },
        server.network.namespace,
    )

    def leads() -> bool:
        leases = cluster.get("leases", "-n", "koordinator-system")["items"]
        holders = {one["metadata"]["name"]: one["spec"].get("holderIdentity") for one in leases}
        return bool(holders.get(LEASES[program]))

    image.process.wait_until(leads, f"{program} leads")
    tmp_path.chmod(0o755)
    config = json.loads((image.bundle / "config.json").read_text())
    assert config["process"]["user"]["uid"] == 65532
    assert "Traceback" not in image.process.said
