"""A kubelet with the cgroupfs driver: pods' groups, pods through CRI, and its list of pods."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from koord_model.qos import KubeQoS

from tests.support.cgroups import container_pid, oom_score_adj
from tests.support.cri import Cri, RunningPod, burstable_pod_config, pb, remove_pod, run_pod
from tests.support.kubepods import Kubepods
from tests.support.pod_cases import PodCase
from tests.support.processes import until

_OOM_SCORES = {KubeQoS.GUARANTEED: -997, KubeQoS.BURSTABLE: 999, KubeQoS.BEST_EFFORT: 1000}


@dataclasses.dataclass(frozen=True)
class Pod:
    """A pod that runs: what it is, its ids, its group."""

    case: PodCase
    running: RunningPod
    group: str
    pid: int

    @property
    def name(self) -> str:
        return self.running.plan.sandbox.metadata.name

    @property
    def container_group(self) -> str:
        return f"{self.group}/{self.running.container_id}"


class Kubelet:
    """Starts pods, through whatever CRI socket it is given, and knows what it started."""

    def __init__(self, kubepods: Kubepods) -> None:
        self.kubepods = kubepods
        self.pods: list[Pod] = []

    def start(self, cri: Cri, case: PodCase) -> Pod:
        """A new pod of this kind, running."""
        limits = _resources(case)
        plan = burstable_pod_config(labels=case.labels, annotations=case.annotations)
        plan.sandbox.metadata.name = f"{case.name}-{plan.sandbox.metadata.name}"
        group = self.kubepods.make_pod(
            case.kube_qos,
            plan.sandbox.metadata.uid,
            shares=limits.cpu_shares,
            quota=limits.cpu_quota or -1,
            memory=limits.memory_limit_in_bytes or -1,
        )
        plan.sandbox.linux.cgroup_parent = f"/{group}"
        of_pod = pb.LinuxContainerResources()
        of_pod.CopyFrom(limits)
        of_pod.oom_score_adj = 0
        plan.sandbox.linux.resources.CopyFrom(of_pod)
        plan.container.linux.resources.CopyFrom(limits)
        plan.container.envs.extend(
            pb.KeyValue(key=key, value=value.encode()) for key, value in case.envs.items()
        )
        running = run_pod(cri, plan)
        pod = Pod(case, running, group, container_pid(cri, running.container_id))
        self.pods.append(pod)
        return pod

    def remove(self, cri: Cri, pod: Pod) -> None:
        """End a pod, and remove its group."""
        remove_pod(cri, pod.running)
        self.kubepods.remove_pod(pod.group)
        self.pods.remove(pod)

    def seen(self, pod: Pod) -> dict[str, dict[str, object]]:
        """What there is now of what is expected of a pod."""
        case = pod.case
        return {
            "container": self.files(pod.container_group, case.container),
            "pod": self.files(pod.group, case.pod),
            "process": _process(pod.pid, case.process),
        }

    def files(self, group: str, expected: Mapping[str, object]) -> dict[str, object]:
        """What a group's files hold, as those that are expected to hold something."""
        return {
            file: type(value)(self.kubepods.read(group, file))  # type: ignore[call-arg]
            for file, value in expected.items()
        }

    def list_pods(self, path: Path, annotations: Mapping[str, str] | None = None) -> None:
        """Write what a kubelet says at /pods; ``annotations`` replace those of all pods."""
        items = [_listed(pod, annotations) for pod in self.pods]
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}))
        aside.rename(path)


def expected(case: PodCase) -> dict[str, dict[str, object]]:
    """What has to be there of a pod, in the form of ``Kubelet.seen``."""
    return {
        "container": dict(case.container),
        "pod": dict(case.pod),
        "process": dict(case.process),
    }


def settles(read: Callable[[], object], wanted: object) -> None:
    """Wait until what is read is what is wanted; if it never is, show both."""
    with contextlib.suppress(AssertionError):
        until(lambda: read() == wanted)
    assert read() == wanted


def _resources(case: PodCase) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=case.cpu_limit * 100,
        cpu_shares=max(2, case.cpu_request * 1024 // 1000),
        memory_limit_in_bytes=case.memory_limit,
        oom_score_adj=_OOM_SCORES[case.kube_qos],
    )


def _process(pid: int, expected: Mapping[str, object]) -> dict[str, object]:
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    known: dict[str, object] = dict(one.split("=", 1) for one in variables if one)
    known["oom_score_adj"] = oom_score_adj(pid)
    return {name: known.get(name) for name in expected}


def _spec(case: PodCase) -> dict[str, object]:
    limits = {}
    if case.cpu_limit:
        limits["cpu"] = f"{case.cpu_limit}m"
    if case.memory_limit:
        limits["memory"] = str(case.memory_limit)
    return {"name": "main", "resources": {"limits": limits} if limits else {}}


def _listed(pod: Pod, annotations: Mapping[str, str] | None) -> dict[str, object]:
    sandbox = pod.running.plan.sandbox
    status = {
        "name": "main",
        "containerID": f"containerd://{pod.running.container_id}",
        "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
    }
    given = sandbox.annotations if annotations is None else annotations
    return {
        "metadata": {
            "name": sandbox.metadata.name,
            "namespace": sandbox.metadata.namespace,
            "uid": sandbox.metadata.uid,
            "labels": dict(sandbox.labels),
            "annotations": dict(given),
        },
        "spec": {"hostNetwork": True, "containers": [_spec(pod.case)]},
        "status": {
            "phase": "Running",
            "qosClass": pod.case.kube_qos.value,
            "containerStatuses": [status],
        },
    }
