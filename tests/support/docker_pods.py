"""Pods on dockerd, as cri-dockerd makes and unmakes them below a kubelet.

Names, labels, bodies, paths and the order of requests are its own (see
``docker_bodies``); pods share the machine's network, so that it stays as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import select
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from koord_demo.cgroups import mounts
from koord_model.qos import KubeQoS
from koord_service.unix_http import UnixConnection

from tests.support import docker_bodies
from tests.support.kubepods import CONTROLLERS, LAYOUT
from tests.support.oci_image import IMAGE, SLEEP_FOREVER
from tests.support.pod_cases import PodCase
from tests.support.processes import PATIENCE

_OOM_SCORES = {KubeQoS.GUARANTEED: -997, KubeQoS.BURSTABLE: 999, KubeQoS.BEST_EFFORT: 1000}

_POD_LABELS = "io.kubernetes.pod"
MODE = "--backend-runtime-mode=Docker"
"""What makes a proxy one for docker."""

_VERSION = "v1.41"
"""Of the API: dockerd 20.10's, which later ones speak as well."""


@dataclasses.dataclass(frozen=True)
class DockerPod:
    """A pod's sandbox, and what its containers are made with."""

    case: PodCase
    name: str
    uid: str
    parent: str
    """Its group, as a cgroup parent is given."""
    sandbox: str = ""

    def container_name(self, container: str, attempt: int = 0) -> str:
        """What docker knows one of its containers by; ``POD`` is the sandbox."""
        return f"k8s_{container}_{self.name}_default_{self.uid}_{attempt}"

    @property
    def labels(self) -> dict[str, str]:
        """Those that the kubelet gives to all that is in it."""
        return {
            f"{_POD_LABELS}.name": self.name,
            f"{_POD_LABELS}.namespace": "default",
            f"{_POD_LABELS}.uid": self.uid,
        }


class EngineError(Exception):
    """dockerd, or what stands before it, said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class CriDockerd:
    """A double of cri-dockerd, at a docker socket; calls raise ``EngineError`` and ``OSError``.

    It makes the pods' groups as well, with a kubelet's limits, below ``cgroup_root``;
    whose root that is takes them away.
    """

    def __init__(self, address: Path, cgroup_root: str) -> None:
        self.address = address
        self._connection = UnixConnection(address, PATIENCE)
        self._cgroup_root = cgroup_root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    # ---- pods

    def new_pod(self, case: PodCase) -> DockerPod:
        """What is known of a pod before its sandbox is made; its group is there."""
        uid = str(uuid.uuid4())
        parent = f"{self._cgroup_root}/{LAYOUT.pod_group(case.kube_qos, uid)}"
        _make_group(parent, _limits(case))
        return DockerPod(case, f"{case.name}-{uid[:8]}", uid, parent)

    def run_pod_sandbox(self, case: PodCase) -> DockerPod:
        pod = self.new_pod(case)
        sandbox = self.create(pod.container_name("POD"), sandbox_body(pod))
        self.start_container(sandbox)
        return dataclasses.replace(pod, sandbox=sandbox)

    def run(self, case: PodCase) -> tuple[DockerPod, str]:
        """A new pod with its container; the container's id."""
        pod = self.run_pod_sandbox(case)
        container = self.create_container(pod)
        self.start_container(container)
        return pod, container

    def stop_pod_sandbox(self, pod: DockerPod) -> None:
        with _gone_will_do():
            self._ask("POST", f"/containers/{pod.sandbox}/stop?t=10")

    def remove_pod_sandbox(self, pod: DockerPod) -> None:
        for container in self.containers(pod):
            self.remove_container(container)
        with _gone_will_do():
            self.remove_container(pod.sandbox)

    def remove(self, pod: DockerPod) -> None:
        """End a pod, in a kubelet's order."""
        for container in self.containers(pod):
            self.stop_container(container)
        self.stop_pod_sandbox(pod)
        self.remove_pod_sandbox(pod)

    # ---- containers

    def create_container(self, pod: DockerPod, container: str = "main", attempt: int = 0) -> str:
        return self.create(
            pod.container_name(container, attempt), container_body(pod, container, attempt)
        )

    def create(self, name: str, body: Mapping[str, Any]) -> str:
        """Create whatever the body says; its id."""
        made: str = self._ask("POST", f"/containers/create?name={name}", body)["Id"]
        return made

    def start_container(self, container: str) -> None:
        self._ask("POST", f"/containers/{container}/start")

    def update(self, container: str, **resources: int | str) -> None:
        """Update limits, by docker's names; memory and swap are one, as everywhere here."""
        if "Memory" in resources:
            resources["MemorySwap"] = resources["Memory"]
        self._ask("POST", f"/containers/{container}/update", docker_bodies.update(**resources))

    def stop_container(self, container: str) -> None:
        self._ask("POST", f"/containers/{container}/stop?t=30")

    def remove_container(self, container: str) -> None:
        self._ask("DELETE", f"/containers/{container}?force=1&v=1")

    # ---- what there is

    def inspect(self, container: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", f"/containers/{container}/json")
        return found

    def reported(self, container: str) -> dict[str, Any]:
        """A container's limits, environment and labels, as docker has them."""
        inspected = self.inspect(container)
        return {**inspected["HostConfig"], **inspected["Config"]}

    def pid(self, container: str) -> int:
        """The first process of a running container."""
        return int(self.inspect(container)["State"]["Pid"])

    def containers(self, pod: DockerPod | None = None) -> set[str]:
        """The ids of a pod's containers, without its sandbox; without a pod, of all there is."""
        labels = [f"io.kubernetes.sandbox.id={pod.sandbox}"] if pod else []
        query = urlencode({"all": "1", "filters": json.dumps({"label": labels})})
        return {one["Id"] for one in self._ask("GET", f"/containers/json?{query}")}

    def _ask(self, method: str, page: str, body: Mapping[str, Any] | None = None) -> Any:
        connection = self._connection
        if connection.sock and select.select([connection.sock], [], [], 0)[0]:
            # It was hung up on meanwhile, which Go's client notices, too.
            connection.close()
        data = None if body is None else docker_bodies.text(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, f"/{_VERSION}{page}", data, headers)
            response = connection.getresponse()
            content = response.read()
        except OSError:
            connection.close()
            raise
        if response.status >= 400:
            raise EngineError(response.status, json.loads(content)["message"])
        return json.loads(content) if content else None


@contextlib.contextmanager
def _gone_will_do() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        if error.status != 404:
            raise


def sandbox_body(pod: DockerPod) -> dict[str, Any]:
    """The create body of the container that is a pod's sandbox."""
    body = docker_bodies.sandbox_create()
    body["Image"] = IMAGE
    body["Labels"] = {
        **_labels({**pod.case.labels, **pod.labels}, pod.case.annotations),
        "io.kubernetes.docker.type": "podsandbox",
        "io.kubernetes.container.name": "POD",
    }
    # Some machines withhold the right to lower a process's score.
    body["HostConfig"].update(OomScoreAdj=0, IpcMode="shareable", CgroupParent=pod.parent)
    return body


def container_body(pod: DockerPod, container: str = "main", attempt: int = 0) -> dict[str, Any]:
    """The create body of one of a pod's containers, which has the limits of the pod's case."""
    case = pod.case
    body = docker_bodies.container_create()
    annotations = {"io.kubernetes.container.restartCount": str(attempt)}
    body["Image"] = IMAGE
    body["Entrypoint"] = list(SLEEP_FOREVER)
    body["Env"] = [f"{name}={value}" for name, value in case.envs.items()]
    body["Labels"] = {
        **_labels({**pod.labels, "io.kubernetes.container.name": container}, annotations),
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.container.logpath": "",
        "io.kubernetes.sandbox.id": pod.sandbox,
    }
    body["HostConfig"].update(
        **_limits(case),
        NetworkMode=f"container:{pod.sandbox}",
        IpcMode=f"container:{pod.sandbox}",
        OomScoreAdj=max(0, _OOM_SCORES[case.kube_qos]),
        CgroupParent=pod.parent,
    )
    return body


def _labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    return {**labels, **{f"annotation.{name}": value for name, value in annotations.items()}}


def _limits(case: PodCase) -> dict[str, int]:
    """A kubelet's limits, as cri-dockerd passes them on: nothing may swap."""
    return {
        "CpuPeriod": 100_000,
        "CpuQuota": case.cpu_limit * 100,
        "CpuShares": max(2, case.cpu_request * 1024 // 1000),
        "Memory": case.memory_limit,
        "MemorySwap": case.memory_limit,
    }


def _make_group(group: str, limits: Mapping[str, int]) -> None:
    """What a kubelet makes for a pod, on cgroup v1; elsewhere runc makes all."""
    for controller in CONTROLLERS:
        mount = mounts().get(controller)
        for directory in _below(mount, group) if mount else ():
            if directory.exists():
                continue
            directory.mkdir()
            for file in ("cpuset.cpus", "cpuset.mems") if controller == "cpuset" else ():
                (directory / file).write_text((directory.parent / file).read_text())
    files = {
        "cpu.shares": limits["CpuShares"],
        "cpu.cfs_quota_us": limits["CpuQuota"] or -1,
        "memory.limit_in_bytes": limits["Memory"] or -1,
    }
    for file, value in files.items():
        mount = mounts().get(file.partition(".")[0])
        if mount:
            (mount / group.lstrip("/") / file).write_text(str(value))


def _below(mount: Path, group: str) -> Iterator[Path]:
    """A group's directory and those above it, from the top."""
    directory = mount
    for part in group.strip("/").split("/"):
        directory /= part
        yield directory
