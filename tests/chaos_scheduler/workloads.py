"""What comes and goes as one: pods of one feature or several, and the objects they need."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    ELASTIC_QUOTAS,
    POD_GROUPS,
    RESERVATIONS,
    Resource,
)
from koord_model.keys import (
    ANNOTATION_RESERVATION_AFFINITY,
    GPU,
    LABEL_POD_GROUP,
    LABEL_QOS,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_PARENT,
)

from tests.apiserver.scheduler_cluster import NAMESPACE

PRIORITY_CLASS, PRIORITY = "koord-prod", 9000
"""Of all: nobody makes room for another."""
GANG = 8
QUOTAS = tuple(f"team-{one}" for one in range(4))
_SIGS = "scheduling.sigs.k8s.io/v1alpha1"
_LSR = {LABEL_QOS: "LSR"}


@dataclass(frozen=True)
class Workload:
    """``objects`` are there before its ``pods``."""

    feature: str
    name: str
    pods: list[Object]
    objects: list[tuple[Resource, Object]] = field(default_factory=list)


def quotas(cpus: int) -> list[Object]:
    """A parent that lends so many CPUs, of which each child may have a third."""
    parent = _quota("all", cpus, {LABEL_QUOTA_IS_PARENT: "true"})
    return [parent, *(_quota(one, cpus // 3, {LABEL_QUOTA_PARENT: "all"}) for one in QUOTAS)]


def _quota(name: str, cpus: int, labels: dict[str, str]) -> Object:
    head = {"apiVersion": _SIGS, "kind": ELASTIC_QUOTAS.kind}
    spec = {"max": {"cpu": str(cpus)}, "min": {"cpu": "0"}}
    return {
        **head,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": spec,
    }


def pod(
    name: str, cpu: str, gpu: int = 0, labels: dict[str, str] | None = None, mebibytes: int = 64
) -> Object:
    amounts = {"cpu": cpu, "memory": f"{mebibytes}Mi", **({GPU: str(gpu)} if gpu else {})}
    limits = {GPU: str(gpu)} if gpu else {}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {"app": "feature"}},
        "spec": {"containers": [container], "priorityClassName": PRIORITY_CLASS},
    }


def _gang(name: str, rng: Random) -> Workload:
    labels = {LABEL_POD_GROUP: name} | rng.choice([{}, {LABEL_QUOTA_NAME: rng.choice(QUOTAS)}])
    gpu = rng.choice([0, 0, 50])
    head = {"apiVersion": _SIGS, "kind": POD_GROUPS.kind}
    group = {
        **head,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": GANG},
    }
    pods = [pod(f"{name}-{one}", "500m", gpu, labels) for one in range(GANG)]
    return Workload("gangs", name, pods, [(POD_GROUPS, group)])


def _quota_pods(name: str, rng: Random) -> Workload:
    labels = {LABEL_QUOTA_NAME: rng.choice(QUOTAS)}
    return Workload("quotas", name, [pod(f"{name}-{one}", "500m", 0, labels) for one in range(10)])


def _gpu_pods(name: str, rng: Random) -> Workload:
    sizes = [rng.choice([25, 50, 50, 100, 200]) for _ in range(4)]
    pods = [pod(f"{name}-{one}", "250m", size) for one, size in enumerate(sizes)]
    return Workload("devices", name, pods)


def _cpu_pods(name: str, rng: Random) -> Workload:
    pods = [pod(f"{name}-{one}", rng.choice("1224"), 0, _LSR) for one in range(4)]
    return Workload("numa", name, [*pods, pod(f"{name}-gpu", "2", 100, _LSR)])


def _distant_pods(name: str, _: Random) -> Workload:
    labels = {"app": name}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"{name}-{one}", "100m", 0, labels) for one in range(8)]
    for one in pods:
        one["spec"]["affinity"] = anti
    return Workload("anti-affinity", name, pods)


def _reserved(name: str, rng: Random) -> Workload:
    """Room for three pods, a card for two, or CPUs for one; some run there or not at all."""
    labels = {"app": name}
    cpu, gpu, number, more = rng.choice([("3", 0, 3, {}), ("1", 100, 2, {}), ("2", 0, 1, _LSR)])
    each = str(int(1000 * int(cpu) / number)) + "m" if number > 1 else cpu
    pods = [pod(f"{name}-{one}", each, gpu // number, labels | more) for one in range(number)]
    if rng.random() < 0.5:
        for one in pods:
            affinity = {ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}
            one["metadata"]["annotations"] = affinity
    template = pod(name, cpu, gpu, more, 64 * number)
    spec: dict[str, Any] = {"containers": template["spec"]["containers"], "priority": PRIORITY}
    reservation = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": more}, "spec": spec},
            "owners": [{"labelSelector": {"matchLabels": labels}}],
            "allocateOnce": number == 1,
            "allocatePolicy": rng.choice(["Aligned", "Restricted"]),
        },
    }
    return Workload("reservations", name, pods, [(RESERVATIONS, reservation)])


FEATURES: tuple[Callable[[str, Random], Workload], ...] = (
    _gang,
    _quota_pods,
    _gpu_pods,
    _cpu_pods,
    _distant_pods,
    _reserved,
)
