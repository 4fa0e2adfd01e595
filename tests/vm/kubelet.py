"""A kubelet's way to start pods: slices by systemd, the rest by CRI, again when cut off."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from koord_demo import cri_client_pb2 as pb
from koord_demo.cri_client import Cri
from koord_demo.oci_image import SLEEP_FOREVER
from koord_demo.pods import PodPlan, burstable_pod_config
from koord_model.qos import KubeQoS

from tests.vm import slices
from tests.vm.expectations import READ, PodCase

T = TypeVar("T")

DEADLINE = 180.0
"""Seconds a call may take: the machine is an emulated one, and shared."""

SETTLE_SECONDS = 20.0

_ATTEMPTS = 20
_OOM_SCORES = {KubeQoS.GUARANTEED: -997, KubeQoS.BURSTABLE: 999, KubeQoS.BEST_EFFORT: 1000}


@dataclasses.dataclass(frozen=True)
class Started:
    """A pod that was started, or will be while it has no container."""

    case: PodCase
    sandbox: pb.PodSandboxConfig
    container_id: str


class Kubelet:
    """Starts pods through a CRI socket. ``retries`` says which calls were cut off, and how."""

    def __init__(self, address: str) -> None:
        self.cri = Cri(address)
        self.retries: list[str] = []
        self.started: list[Started] = []
        self._numbers = itertools.count(1)

    def start(
        self,
        case: PodCase,
        command: Sequence[str] = SLEEP_FOREVER,
        bound: Callable[[Started], None] = lambda _: None,
    ) -> str:
        """Start a pod of this kind; returns the container's id.

        ``bound`` learns of the pod before the runtime does, as readers of the kubelet's list do.
        """
        plan = self._plan(case, command)
        bound(Started(case, plan.sandbox, ""))
        sandbox_id = self._insist(
            "RunPodSandbox",
            plan.sandbox.metadata,
            lambda: self.cri.run_pod_sandbox(plan.sandbox, timeout=DEADLINE),
        )
        container_id = self._insist(
            "CreateContainer",
            plan.container.metadata,
            lambda: self.cri.create_container(
                sandbox_id, plan.container, plan.sandbox, timeout=DEADLINE
            ),
        )
        self._insist(
            "StartContainer",
            None,
            lambda: self.cri.start_container(container_id, timeout=DEADLINE),
        )
        self.started.append(Started(case, plan.sandbox, container_id))
        return container_id

    def update(self, container_id: str, case: PodCase) -> None:
        """Write the kubelet's view of a pod's resources again, as it does after a resize."""
        self.cri.update_container_resources(container_id, _resources(case), timeout=DEADLINE)

    def list_pods(
        self, path: Path, spec: Callable[[PodCase], dict[str, Any]], *pending: Started
    ) -> None:
        """Write what a kubelet says at /pods of those that run, and of others that will."""
        running = {
            one.id
            for one in self.cri.list_containers(timeout=DEADLINE)
            if one.state == pb.CONTAINER_RUNNING
        }
        there = (one for one in self.started if one.container_id in running)
        items = [_listed(one, spec) for one in (*there, *pending)]
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}))
        aside.rename(path)

    def _plan(self, case: PodCase, command: Sequence[str]) -> PodPlan:
        plan = burstable_pod_config(
            f"{case.name}-{next(self._numbers)}",
            labels=case.labels,
            annotations=case.annotations,
            command=command,
        )
        parent = slices.make_pod(case, plan.sandbox.metadata.uid)
        plan.sandbox.linux.cgroup_parent = parent
        plan.container.linux.resources.CopyFrom(_resources(case))
        return plan

    def _insist(
        self,
        method: str,
        metadata: pb.PodSandboxMetadata | pb.ContainerMetadata | None,
        call: Callable[[], T],
    ) -> T:
        """Make a call; where the connection breaks, again as the kubelet's next attempt."""
        for _ in range(_ATTEMPTS):
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                self.retries.append(f"{method}: {error.details()}")
            if metadata is not None:
                metadata.attempt += 1
            time.sleep(1)
        raise TimeoutError(f"{method}: cut off {_ATTEMPTS} times, last: {self.retries[-1]}")


def groups(pid: int) -> dict[str, Any]:
    """What the kernel holds for a container and its pod, by file of cgroup v2."""
    [line] = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    path = line.removeprefix("0::")
    directory = slices.CGROUP / path.lstrip("/")
    return {"path": path, "container": _files(directory), "pod": _files(directory.parent)}


def settled(look: Callable[[], dict[str, Any]], case: PodCase) -> dict[str, Any]:
    """What there is once koordlet, which writes when the runtime is done, has written."""
    begin = time.monotonic()
    while True:
        seen = look()
        if case.container.items() <= seen["container"].items() and (
            case.pod.items() <= seen["pod"].items()
        ):
            return seen
        if time.monotonic() > begin + SETTLE_SECONDS:
            return seen
        time.sleep(0.5)


def _listed(one: Started, spec: Callable[[PodCase], dict[str, Any]]) -> dict[str, Any]:
    status = {
        "name": "main",
        "containerID": f"containerd://{one.container_id}",
        "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
    }
    return {
        "metadata": {
            "name": one.sandbox.metadata.name,
            "namespace": one.sandbox.metadata.namespace,
            "uid": one.sandbox.metadata.uid,
            "labels": dict(one.sandbox.labels),
            "annotations": dict(one.sandbox.annotations),
        },
        "spec": spec(one.case),
        "status": {
            "phase": "Running" if one.container_id else "Pending",
            "qosClass": one.case.kube_qos.value,
            "containerStatuses": [status] if one.container_id else [],
        },
    }


def _resources(case: PodCase) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=case.cpu_limit * 100,
        cpu_shares=slices.shares(case.cpu_request),
        memory_limit_in_bytes=case.memory_limit,
        oom_score_adj=_OOM_SCORES[case.kube_qos],
    )


def _files(directory: Path) -> dict[str, str]:
    return {
        name: (directory / name).read_text().strip() for name in READ if (directory / name).exists()
    }
