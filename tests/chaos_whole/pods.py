"""Kinds of pods, and what the kernel must hold for each: by arithmetic, not by asking anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from koord_demo.oci_image import IMAGE
from koord_model import cpuset
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS

from tests.chaos_whole.api import Document
from tests.support.colocation import PERIOD, PROFILE, QUOTA
from tests.support.own_machine import OwnMachine

NAMESPACE = "shop"
CONTAINER = "main"
MIB = 1 << 20
SHARES, MEMORY, CPUS = "cpu.shares", "memory.limit_in_bytes", "cpuset.cpus"

Files = dict[str, int | str]


@dataclass(frozen=True)
class PodKind:
    """A pod of one container; CPU is in millicores, memory in MiB (a quarter is requested)."""

    name: str
    request: int
    limit: int
    memory: int = 32
    labels: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    @property
    def is_batch(self) -> bool:
        return self.labels.items() >= PROFILE["spec"]["selector"]["matchLabels"].items()

    @property
    def is_exclusive(self) -> bool:
        return self.labels.get(LABEL_QOS) == "LSR"

    def sized(self, request: int, limit: int) -> PodKind:
        """The same with other amounts of CPU."""
        return replace(self, request=request, limit=limit)

    @property
    def resources(self) -> Document:
        """As their author writes them: in plain CPU and memory, whatever the pod becomes."""
        asked = self.memory if self.is_exclusive else self.memory // 4
        return {
            "requests": {"cpu": f"{self.request}m", "memory": f"{asked}Mi"},
            "limits": {"cpu": f"{self.limit}m", "memory": f"{self.memory}Mi"},
        }

    def document(self, name: str) -> Document:
        container: Document = {
            "name": CONTAINER,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "resources": self.resources,
        }
        if self.command:
            container["command"] = list(self.command)
        spec = {
            "containers": [container],
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 2,
        }
        if not self.is_batch:
            spec["priorityClassName"] = "koord-prod"
        labels = {**self.labels, "kind": self.name}
        return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec}

    def expected(self, pod: Document) -> Files:
        """What its container's group holds, and its own.

        A whole CPU is 1024 shares and a period's quota; a pod with CPUs of its own has no quota.
        """
        quota = -1 if self.is_exclusive else self.limit * PERIOD // 1000
        files: Files = {SHARES: max(2, self.request * 1024 // 1000), QUOTA: quota}
        if self.is_exclusive:
            files[CPUS] = cpuset.render(given_cpus(pod))
        return {**files, MEMORY: self.memory * MIB}


# Small: a new pod counts with its request until its usage is known, and twenty are to fit two CPUs.
BATCH = PodKind("batch", 20, 120, labels=PROFILE["spec"]["selector"]["matchLabels"])
SERVICE = PodKind("service", 40, 300, labels={LABEL_QOS: "LS"})
PLAIN = PodKind("plain", 30, 150)
EXCLUSIVE = PodKind("exclusive", 1000, 1000, labels={LABEL_QOS: "LSR"})


def given_cpus(pod: Document) -> frozenset[int]:
    """The CPUs that the scheduler gave a pod, as it says."""
    annotations = pod["metadata"].get("annotations", {})
    status = json.loads(annotations.get(ANNOTATION_RESOURCE_STATUS, "{}"))
    return frozenset(cpuset.parse(status.get("cpuset", "")))


def is_rejected(pod: Document) -> bool:
    """Whether the kubelet has no room for it; it stays so."""
    status = pod.get("status", {})
    return status.get("phase") == "Failed" and str(status.get("reason")).startswith("OutOf")


def why_wrong(machine: OwnMachine, kind: PodKind, pod: Document) -> str | None:
    """What of a pod is not as it must be; None where it is right."""
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    status = pod.get("status", {})
    if status.get("phase") != "Running":
        return f"{status.get('phase')}: {_message(status)}"
    [container] = status.get("containerStatuses") or [{}]
    if not container.get("ready") or container.get("restartCount"):
        return f"not ready, or started again: {container.get('state')}"
    if kind.is_batch and status["qosClass"] != "BestEffort":
        return "is no batch pod"
    wanted = kind.expected(pod)
    group = pod_group(pod)
    for place in (f"{group}/{container['containerID'].rpartition('/')[2]}", group):
        # The pod's own group may use any CPU: only its container is kept to its own.
        asked = {file for file in wanted if file != CPUS or place != group}
        found = read(machine, place, asked)
        if found != {file: wanted[file] for file in asked}:
            return f"{place}: {found}, not {wanted}"
    return None


def pod_group(pod: Document) -> str:
    """The pod's group, as a kubelet with the cgroupfs driver names it."""
    quality = {"Burstable": "/burstable", "BestEffort": "/besteffort"}
    middle = quality.get(pod["status"]["qosClass"], "")
    return f"kubepods{middle}/pod{pod['metadata']['uid']}"


def read(machine: OwnMachine, group: str, files: set[str]) -> Files:
    """What files of a group hold; those that are not there are left out."""
    found: Files = {}
    for file in files:
        path = machine.group(file.partition(".")[0]) / group / file
        if path.exists():
            found[file] = _value(path)
    return found


def _value(path: Path) -> int | str:
    text = path.read_text().strip()
    return text if path.name == CPUS else int(text)


def _message(status: Document) -> str:
    said = [one.get("message", "") for one in status.get("conditions", ())]
    return "; ".join(one for one in (status.get("message", ""), *said) if one)
