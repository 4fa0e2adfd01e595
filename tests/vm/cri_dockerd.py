"""What cri-dockerd asks of docker for a kubelet with the systemd driver.

Docker knows no pods, no annotations and no cgroup paths: pods are in names and labels, and a
cgroup parent is the bare name of the pod's slice.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
from pathlib import PurePath
from typing import Any

from koord_demo.oci_image import BUSYBOX, IMAGE, SLEEP_FOREVER, image_layer
from koord_demo.pods import batch_pod_config

from tests.vm import slices
from tests.vm.expectations import PodCase
from tests.vm.kubelet import DEADLINE

_API = "/v1.41"


@dataclasses.dataclass(frozen=True)
class Docked:
    """A pod that docker runs."""

    name: str
    slice: str
    sandbox_id: str
    container_id: str


class CriDockerd:
    """Starts and ends pods through a socket of docker's."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, method: str, target: str, body: object = None) -> Any:
        """Make a request on a connection of its own; the answer's JSON, if it has any.

        Raises:
            OSError: docker refused it, or is not there; the message has what it said.
        """
        connection = _Connection(self._path)
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            connection.request(method, _API + target, data, {"Content-Type": kind})
            response = connection.getresponse()
            said = response.read()
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise OSError(f"{method} {target}: {response.status} {said.decode()}")
        if response.getheader("Content-Type") != "application/json" or not said.strip():
            return None
        return [json.loads(line) for line in said.splitlines()][-1]

    def import_image(self) -> None:
        """The image comes in as a file system and a command: there is no registry to ask."""
        layer = image_layer(BUSYBOX.read_bytes())
        name, tag = IMAGE.rsplit(":", 1)
        self.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag={tag}", layer)

    def start(self, case: PodCase) -> Docked:
        """Start a batch pod of this kind."""
        plan = batch_pod_config(case.name, labels=case.labels, annotations=case.annotations)
        pod = plan.sandbox.metadata
        parent = PurePath(slices.make_pod(case, pod.uid)).name
        labels = dict(plan.sandbox.labels)
        sandbox_id = self._run(
            f"k8s_POD_{pod.name}_{pod.namespace}_{pod.uid}_0",
            {
                **labels,
                **_as_labels(plan.sandbox.annotations),
                "io.kubernetes.container.name": "POD",
                "io.kubernetes.docker.type": "podsandbox",
            },
            # 2 shares and this score are every sandbox's.
            {
                "CgroupParent": parent,
                "NetworkMode": "host",
                "IpcMode": "shareable",
                "CpuShares": 2,
                "OomScoreAdj": -998,
            },
        )
        container_id = self._run(
            f"k8s_main_{pod.name}_{pod.namespace}_{pod.uid}_0",
            {
                **dict(plan.container.labels),
                **_as_labels(plan.container.annotations),
                "io.kubernetes.container.logpath": "",
                "io.kubernetes.docker.type": "container",
                "io.kubernetes.sandbox.id": sandbox_id,
            },
            {
                "CgroupParent": parent,
                "NetworkMode": f"container:{sandbox_id}",
                "IpcMode": f"container:{sandbox_id}",
                "OomScoreAdj": 1000,
                **_LIMITS,
            },
        )
        return Docked(f"{pod.namespace}/{pod.name}", parent, sandbox_id, container_id)

    def update(self, container_id: str) -> None:
        """Write the kubelet's view of a batch pod's resources again."""
        self.ask("POST", f"/containers/{container_id}/update", _LIMITS)

    def inspect(self, container_id: str) -> Any:
        """What docker knows of a container."""
        return self.ask("GET", f"/containers/{container_id}/json")

    def end(self, pod: Docked) -> None:
        """End a pod and remove what is left of it, as when it is deleted."""
        for one in (pod.container_id, pod.sandbox_id):
            self.ask("POST", f"/containers/{one}/stop?t=10")
        for one in (pod.container_id, pod.sandbox_id):
            self.ask("DELETE", f"/containers/{one}?v=1&force=1")

    def _run(self, name: str, labels: dict[str, str], host: dict[str, Any]) -> str:
        body = {
            "Image": IMAGE,
            "Entrypoint": SLEEP_FOREVER,
            "Labels": labels,
            "HostConfig": {**host, "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"]},
        }
        ident: str = self.ask("POST", f"/containers/create?name={name}", body)["Id"]
        self.ask("POST", f"/containers/{ident}/start")
        return ident


_LIMITS = {"CpuShares": 2, "CpuPeriod": 100_000, "CpuQuota": 0, "Memory": 0, "MemorySwap": 0}
"""All that the kubelet knows of a batch pod's limits."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _as_labels(annotations: Any) -> dict[str, str]:
    return {f"annotation.{name}": value for name, value in dict(annotations).items()}
