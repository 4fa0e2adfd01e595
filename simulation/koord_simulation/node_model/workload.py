"""Pods that are simulated: what they ask for, would use, and are sensitive to. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from koord_model.demand import Amounts, Demand
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, BATCH_CPU, BATCH_MEMORY, CPU, LABEL_QOS
from koord_model.pod import Container, Pod
from koord_model.priority import BANDS, PriorityClass
from koord_model.qos import KubeQoS, QoSClass
from koord_prediction.models import SYS
from koord_prediction.trace import Trace
from koordlet.qos_manager.core.strategy import ContainerView, PodView
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

from koord_simulation.node_model.curves import Constant, DemandCurve, RecordedCurve
from koord_simulation.node_model.machine import MIB, SimulatedMachine

MEMORY = "memory"
_LATENCY_CLASSES = (QoSClass.LSE, QoSClass.LSR, QoSClass.LS)
_CPU_NAMES = (CPU, BATCH_CPU)


@dataclass(frozen=True)
class Workload:
    """A pod.

    ``cpu`` (cores) and ``memory`` (bytes without page cache) are what it would use alone;
    containers share them, and requests and limits, evenly. ``requests`` and ``limits`` are
    by resource, CPU and batch-cpu in millicores. ``cpus`` is a kernel CPU list of CPUs of its own.
    It runs from ``start`` to ``end`` seconds of the run.

    Of latency: ``service_ms`` is what a request takes on an idle machine (0: it serves
    none), ``burstiness`` how much its demand varies within a second (0 to 1: as much as
    random arrivals).

    Of memory: ``page_cache`` bytes of files that it reads, ``cold`` the part of files and
    of ``memory`` that it does not need, ``leak`` bytes a second that it loses until it is
    restarted, ``oom_score_adj`` what the kubelet would set (``None``: by Kubernetes' rule).

    Of the cache: ``llc_bytes`` that a busy core of it would fill, ``llc_sensitivity`` how
    much slower it is without any (1: twice as slow), ``bandwidth`` of memory, bytes a second
    of a busy core with all its data out of cache.
    """

    name: str
    qos: QoSClass = QoSClass.LS
    cpu: DemandCurve = field(default_factory=lambda: Constant(0.0))
    memory: DemandCurve = field(default_factory=lambda: Constant(256 * MIB))
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    priority: int | None = None
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpus: str = ""
    containers: int = 1
    start: float = 0.0
    end: float = math.inf
    service_ms: float | None = None
    burstiness: float = 0.2
    page_cache: float = 0.0
    cold: float = 0.3
    leak: float = 0.0
    oom_score_adj: int | None = None
    llc_bytes: float = 1.5 * MIB
    llc_sensitivity: float = 0.4
    bandwidth: float = 2e9

    @property
    def full_name(self) -> str:
        """Its "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def latency_sensitive(self) -> bool:
        """True if its latency is reported."""
        return self.service > 0

    @property
    def service(self) -> float:
        """Milliseconds that a request takes on an idle machine; 0: it serves none."""
        if self.service_ms is not None:
            return self.service_ms
        return 5.0 if self.qos in _LATENCY_CLASSES else 0.0

    @cached_property
    def kube(self) -> KubeQoS:
        """Kubernetes' class by its rule; it knows nothing of batch resources."""
        given = {
            name: (self.requests.get(name, self.limits.get(name, 0)), self.limits.get(name, 0))
            for name in (CPU, MEMORY)
        }
        if not any(any(pair) for pair in given.values()):
            return KubeQoS.BEST_EFFORT
        same = all(request == limit != 0 for request, limit in given.values())
        return KubeQoS.GUARANTEED if same else KubeQoS.BURSTABLE

    @cached_property
    def spec_priority(self) -> int | None:
        """``spec.priority``: as given, or the lowest of the class that fits."""
        if self.priority is not None:
            return self.priority
        batch = self.qos is QoSClass.BE
        return BANDS[PriorityClass.BATCH if batch else PriorityClass.PROD].start

    def requested(self, amounts: Amounts, *names: str) -> float:
        """A container's part of the first of these resources that is there; 0 without."""
        return next((amounts[name] / self.containers for name in names if name in amounts), 0.0)

    def cpu_request(self) -> float:
        """Cores that one container requests, batch-cpu too."""
        return self.requested(self.requests, *_CPU_NAMES) / 1000

    def cpu_limit(self) -> float:
        """Cores that one container may use; 0: no limit."""
        return self.requested(self.limits, *_CPU_NAMES) / 1000

    def memory_limit(self) -> int:
        """Bytes that one container may use; 0: no limit."""
        return int(self.requested(self.limits, MEMORY, BATCH_MEMORY))

    def view(self, machine: SimulatedMachine, at: float) -> PodView:
        """Return koordlet's view of it, started at ``at`` seconds since the epoch."""
        layout, uid = machine.layout, f"uid-{self.namespace}-{self.name}"
        labels = dict(self.labels)
        if self.qos is not QoSClass.NONE:
            labels.setdefault(LABEL_QOS, self.qos.value)
        annotations = dict(self.annotations)
        if self.cpus:
            annotations.setdefault(ANNOTATION_RESOURCE_STATUS, f'{{"cpuset": "{self.cpus}"}}')
        pod = Pod(
            self.name,
            self.namespace,
            uid,
            labels,
            annotations,
            "/" + layout.pod_group(self.kube, uid),
        )
        names = [f"c{number}" for number in range(self.containers)]
        containers = {
            f"{self.name}-{name}": Container(pod, name, f"{self.name}-{name}") for name in names
        }
        demand = Demand(
            priority=self.spec_priority,
            phase="Running",
            started=at,
            requests=self.requests,
            limits=self.limits,
            container_requests={name: self._part(self.requests) for name in names},
            container_limits={name: self._part(self.limits) for name in names},
        )
        record = PodRecord(pod, containers, demand=demand)
        return PodView(
            record,
            layout.pod_group(self.kube, uid),
            tuple(
                ContainerView(container, container_group(record, container, layout))
                for container in containers.values()
            ),
        )

    def _part(self, amounts: Amounts) -> Amounts:
        return {name: number // self.containers for name, number in amounts.items()}


def of_trace(
    trace: Trace, speed: float = 1.0
) -> tuple[tuple[Workload, ...], DemandCurve, DemandCurve]:
    """The pods of a recorded trace, and CPU and memory of the system beside them.

    Batch and free pods become best-effort ones that request batch resources, all others LS.
    ``speed`` is how many seconds of the trace pass in a second.
    """
    times = (trace.times - trace.times[0]) / speed
    step = trace.step / speed
    pods: list[Workload] = []
    system: tuple[DemandCurve, DemandCurve] = (Constant(0.5), Constant(2048 * MIB))
    for column, pod in enumerate(trace.pods):
        cpu = RecordedCurve(times, trace.cpu[:, column])
        memory = RecordedCurve(times, trace.memory[:, column])
        if pod.name == SYS:
            system = (cpu, memory)
            continue
        there = times[~np.isnan(trace.cpu[:, column])]
        batch = pod.priority in (PriorityClass.BATCH, PriorityClass.FREE)
        names = (BATCH_CPU, BATCH_MEMORY) if batch else (CPU, MEMORY)
        amounts = (round(1000 * pod.request.cpu), round(pod.request.memory))
        band = BANDS.get(pod.priority)
        pods.append(
            Workload(
                pod.name,
                QoSClass.BE if batch else QoSClass.LS,
                cpu,
                memory,
                requests=dict(zip(names, amounts, strict=True)),
                priority=band.start if band else None,
                start=float(there[0]),
                end=float(there[-1]) + step,
            )
        )
    return tuple(pods), *system
