"""Present usage of the node: classes, pods and containers. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU
from koord_model.pod import Pod
from koord_model.qos import QoSClass, kube_qos, qos_class_or_default

from koordlet.http_api.documents.node import (
    Document,
    DocumentSources,
    capacity,
    cores,
    node_psi,
    some_psi,
    system_usage,
    whole,
)
from koordlet.metric_cache.core.delays import DELAYS, with_pods
from koordlet.states_informer.state.pod_inventory import Demand, PodRecord

CLASSES = (QoSClass.SYSTEM, QoSClass.LSE, QoSClass.LSR, QoSClass.LS, QoSClass.BE)
"""In the order in which people see them."""

_CPU = (CPU, BATCH_CPU, "kubernetes.io/mid-cpu")
_MEMORY = ("memory", BATCH_MEMORY, "kubernetes.io/mid-memory")


def class_of(pod: Pod) -> QoSClass:
    """The class the pod's label names, or the one that Kubernetes' class stands for."""
    return qos_class_or_default(pod.labels, kube_qos(pod.cgroup_parent))


def asked_cpu(amounts: Mapping[str, int]) -> float | None:
    """Cores of a request or limit, of whichever priority; ``None`` where there is none."""
    found = _first(amounts, _CPU)
    return None if found is None else found / 1000


def asked_memory(amounts: Mapping[str, int]) -> int | None:
    """Bytes of a request or limit, of whichever priority."""
    return _first(amounts, _MEMORY)


def top_document(observed: DocumentSources) -> Document:
    """The node, its classes, pods and their containers, with what they ask for and suffer."""
    readings = {who: _Readings.of(who, observed) for who in ("pod", "container")}
    pods = [_pod(record, readings) for record in observed.pods()]
    peaks = observed.peaks()
    return {
        "at": observed.clock(),
        "node": {
            "name": observed.node,
            "cpu": cores(observed.value("node_cpu_usage")),
            "memory": whole(observed.value("node_memory_usage")),
            "capacity": capacity(observed.latest),
            "psi": node_psi(observed),
            "peaks": None if peaks is None else {name: dict(peak) for name, peak in peaks.items()},
        },
        "system": system_usage(observed),
        "host_applications": _host_applications(observed),
        "classes": [
            _class(qos, [pod for pod in pods if pod["qos"] == qos])
            for qos in CLASSES
            if any(pod["qos"] == qos for pod in pods)
        ],
        "pods": pods,
    }


@dataclass(frozen=True, slots=True)
class _Readings:
    """The newest values of all pods, or of all containers, by their labels."""

    cpu: Mapping[tuple[str, ...], float]
    memory: Mapping[tuple[str, ...], float]
    throttled: Mapping[tuple[str, ...], float]
    psi: Mapping[tuple[str, ...], Mapping[str, float]]
    delays: Mapping[str, Mapping[tuple[str, ...], float]]

    @classmethod
    def of(cls, who: str, observed: DocumentSources) -> _Readings:
        return cls(
            observed.newest(f"{who}_cpu_usage"),
            observed.newest(f"{who}_memory_usage"),
            observed.newest(f"{who}_cpu_throttled"),
            some_psi(observed.newest(f"{who}_psi")),
            {name: with_pods(observed.newest(kind)) for name, kind in DELAYS.items()},
        )

    def row(
        self, who: tuple[str, ...], requests: Mapping[str, int], limits: Mapping[str, int]
    ) -> Document:
        psi = self.psi.get(who, {})
        return {
            "cpu": cores(self.cpu.get(who)),
            "memory": whole(self.memory.get(who)),
            "cpu_request": asked_cpu(requests),
            "cpu_limit": asked_cpu(limits),
            "memory_request": asked_memory(requests),
            "memory_limit": asked_memory(limits),
            "throttled": _rounded(self.throttled.get(who)),
            "psi_cpu": psi.get("cpu"),
            "psi_memory": psi.get("memory"),
            "psi_io": psi.get("io"),
            **{name: _rounded(values.get(who)) for name, values in self.delays.items()},
        }


def _pod(record: PodRecord, readings: Mapping[str, _Readings]) -> Document:
    pod, demand = record.pod, record.demand or Demand()
    containers = [
        {
            "id": container.id,
            "name": container.name,
            **readings["container"].row(
                (pod.uid, container.id),
                demand.container_requests.get(container.name, {}),
                demand.container_limits.get(container.name, {}),
            ),
        }
        for container in record.containers.values()
    ]
    return {
        "uid": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "qos": class_of(pod).value,
        "kube_qos": kube_qos(pod.cgroup_parent).value,
        "priority": demand.priority,
        "phase": "Terminating" if demand.terminating else demand.phase,
        **readings["pod"].row((pod.uid,), demand.requests, demand.limits),
        "containers": containers,
    }


def _class(qos: QoSClass, pods: list[Document]) -> Document:
    fields = ("cpu", "memory", "cpu_request", "memory_request")
    sums = {name: _sum(pod[name] for pod in pods) for name in fields}
    return {"qos": qos.value, "pods": len(pods), **sums}


def _host_applications(observed: DocumentSources) -> list[Document]:
    cpu = observed.newest("host_application_cpu_usage")
    memory = observed.newest("host_application_memory_usage")
    return [
        {"name": name, "cpu": cores(cpu.get((name,))), "memory": whole(memory.get((name,)))}
        for (name,) in sorted({*cpu, *memory})
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 4) if known else None


def _first(amounts: Mapping[str, int], names: Iterable[str]) -> int | None:
    return next((amounts[name] for name in names if name in amounts), None)
