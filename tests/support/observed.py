"""A node that was observed for half an hour: a cache in a dictionary, pods, collectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from koord_host.knobs.weights import RuntimeWeights
from koord_host.planning.jobs import JobKey, JobState
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, NumaNode, Processor
from koord_model.pod import Container, Pod
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.models import NODE, RESULTS, SYS, item_uid
from koord_prediction.peak import PredictedPeak
from koordlet.http_api.documents.node import DocumentSources, Peaks, ReportState
from koordlet.metric_cache.core.interface import (
    AggregatedSeries,
    Aggregation,
    CacheState,
    Points,
    TimeWindow,
)
from koordlet.metric_cache.core.metric_kinds import KINDS, POD_UID
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import CollectorState, NoLatestValues
from koordlet.prediction.training_result import TrainingResult
from koordlet.states_informer.state.informer_age import InformerAge
from koordlet.states_informer.state.pod_inventory import Demand, PodRecord

NOW = 1_800_000_000.0
GIB = 1 << 30
F = TypeVar("F")


class DictionaryCache:
    """A ``MetricCache`` as its protocol says it, without bounds, disk or speed."""

    def __init__(self, problem: str = "") -> None:
        self.kept: dict[Series, dict[float, float]] = {}
        self.problem = problem

    def load(self) -> None:
        """Nothing was kept."""

    def append(self, at: float, samples: Iterable[Sample]) -> None:
        for series, value in samples:
            assert len(series.labels) == len(KINDS[series.kind].labels), series
            self.kept.setdefault(series, {})[at] = value

    def retain_pods(self, present: Set[str]) -> None:
        for series in list(self.kept):
            labels = KINDS[series.kind].labels
            if POD_UID in labels and series.labels[labels.index(POD_UID)] not in present:
                del self.kept[series]

    def aggregate(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> AggregatedSeries:
        found = self.points(kind, window, labels)
        columns = {
            name: np.array([_aggregated(name, one.values) for one in found.values()])
            for name in aggregations
        }
        return AggregatedSeries(
            tuple(found),
            columns,
            np.array([len(one.times) for one in found.values()], dtype=np.int64),
            np.array([one.times[0] for one in found.values()]),
            np.array([one.times[-1] for one in found.values()]),
        )

    def merged(
        self,
        kind: str,
        window: TimeWindow,
        aggregations: Sequence[Aggregation],
        labels: Mapping[str, str] | None = None,
    ) -> Mapping[Aggregation, float]:
        raise NotImplementedError

    def points(
        self, kind: str, window: TimeWindow, labels: Mapping[str, str] | None = None
    ) -> Mapping[Series, Points]:
        places = [(KINDS[kind].labels.index(name), value) for name, value in (labels or {}).items()]
        found = {}
        for series, points in self.kept.items():
            if series.kind == kind and all(series.labels[i] == value for i, value in places):
                times = [at for at in sorted(points) if window.start <= at <= window.end]
                if times:
                    values = [points[at] for at in times]
                    found[series] = Points(np.array(times), np.array(values))
        return found

    def state(self) -> CacheState:
        return CacheState(len(self.kept), 4096, 12_345_678, 2_345_678, 3, self.problem)

    def close(self) -> None:
        """Nothing to let go of."""


def _aggregated(name: Aggregation, values: np.ndarray) -> float:
    simple = {
        Aggregation.AVG: np.mean,
        Aggregation.MIN: np.min,
        Aggregation.MAX: np.max,
        Aggregation.COUNT: len,
        Aggregation.LAST: lambda all_of_them: all_of_them[-1],
    }
    if name in simple:
        return float(simple[name](values))
    place = max(int(len(values) * int(name.value[1:]) / 100) - 1, 0)
    return float(np.sort(values)[place])


@dataclass
class Infos(NoLatestValues):
    """``Latest`` of what is given."""

    infos: tuple[object, ...] = ()

    def info(self, kind: type[F]) -> F | None:
        return next((one for one in self.infos if isinstance(one, kind)), None)


@dataclass
class ObservedNode:
    """What a test may change before it asks."""

    cache: DictionaryCache = field(default_factory=DictionaryCache)
    pods: tuple[PodRecord, ...] = ()
    collectors: tuple[CollectorState, ...] = ()
    ages: dict[str, InformerAge] = field(default_factory=dict)
    peaks: Peaks | None = None
    predictions: dict[str, PredictedPeak] = field(default_factory=dict)
    training: TrainingResult = field(default_factory=TrainingResult)
    reports: dict[str, ReportState] = field(default_factory=dict)
    jobs: tuple[JobState, ...] = ()
    weights: RuntimeWeights | None = None
    infos: tuple[object, ...] = ()
    now: float = NOW

    def observed(self) -> DocumentSources:
        return DocumentSources(
            cache=self.cache,
            collectors=lambda: self.collectors,
            latest=Infos(self.infos),
            pods=lambda: self.pods,
            ages=lambda: self.ages,
            peaks=lambda: self.peaks,
            clock=lambda: self.now,
            node="node-1",
            predictions=lambda: self.predictions,
            training=lambda: self.training,
            reports=lambda: self.reports,
            jobs=lambda: self.jobs,
            weights=self.weights,
        )


MACHINE = (
    NodeCPUInfo(
        tuple(Processor(i, core=i // 2, socket=i // 8, node=i // 8) for i in range(16)),
        model="Fake CPU @ 2.50GHz",
        vendor="GenuineFake",
        smt=True,
    ),
    NodeMemoryInfo(
        64 * GIB,
        (
            NumaNode(0, 32 * GIB, cpus=tuple(range(8))),
            NumaNode(1, 32 * GIB, cpus=tuple(range(8, 16))),
        ),
    ),
)
COLLECTORS = (
    CollectorState("noderesource", 1.0, True, True, "", 1800, 0, 0.0004, 2, NOW - 0.5),
    CollectorState("podresource", 1.0, True, True, "", 1800, 1, 0.0123, 80, NOW - 0.5),
    CollectorState("coldmemory", 5.0, True, False, "no kidled here", 30, 0, 0.0, 0, NOW - 9),
    CollectorState(
        "cpi", 60.0, False, False, "disabled; enable with --feature-gates=CPICollector=true"
    ),
)
PEAKS = {"prod": {"cpu": 11.2, "memory": 24.0 * GIB}}
PREDICTIONS = {
    "podReclaimablePredictor": PredictedPeak(
        ResourceAmount(11.2, 22.0 * GIB), ResourceAmount(1.5, 3.0 * GIB)
    ),
    "priorityReclaimablePredictor": PredictedPeak(
        ResourceAmount(10.1, 24.0 * GIB), ResourceAmount(2.0, 2.0 * GIB)
    ),
    "minPredictor": PredictedPeak(ResourceAmount(11.2, 24.0 * GIB), ResourceAmount(1.5, 2.0 * GIB)),
}
REPORTS = {
    "NodeMetric": ReportState(
        "direct", NOW - 41.0, {"direct": 28, "object": 2}, 3, "", "10.0.0.7:9443"
    ),
    "NodeResourceTopology": ReportState("object", NOW - 2.0, {"object": 4}, 0, ""),
    "Device": ReportState("", 0.0, {"object": 0}, 7, "devices: 403 Forbidden"),
}

JOBS = (
    JobState(JobKey("traffic"), "waiting", 1.0, 30.0),
    JobState(
        JobKey("memory.reclaim", "kubepods/besteffort/poduid-spark-exec-17", "memory_offload"),
        "running",
        2.0,
        30.0,
    ),
)


def pod(
    name: str,
    namespace: str,
    qos: str,
    cpu: float,
    memory: float,
    *,
    containers: Sequence[str] = ("main",),
    group: str = "burstable",
) -> PodRecord:
    """A pod that asks for so many cores and GiB, by its class's resource names."""
    uid = f"uid-{name}"
    made = Pod(
        name,
        namespace,
        uid,
        labels={LABEL_QOS: qos} if qos else {},
        cgroup_parent=f"/kubepods.slice/kubepods-{group}.slice/{uid}",
    )
    names = (BATCH_CPU, BATCH_MEMORY) if qos == "BE" else ("cpu", "memory")
    share = {names[0]: round(cpu * 1000 / len(containers)), names[1]: round(memory * GIB)}
    whole = {names[0]: round(cpu * 1000), names[1]: round(memory * GIB) * len(containers)}
    doubled = {key: 2 * value for key, value in share.items()}
    demand = Demand(
        phase="Running",
        requests=whole,
        limits={key: 2 * value for key, value in whole.items()},
        container_requests=dict.fromkeys(containers, share),
        container_limits=dict.fromkeys(containers, doubled),
    )
    by_id = {f"{uid}-{one}": Container(made, one, f"{uid}-{one}") for one in containers}
    return PodRecord(made, by_id, demand=demand)


PODS = (
    pod("web-7c9d8b5f4-x2x9k", "shop", "LS", 2.0, 1.5, containers=("app", "envoy")),
    pod("web-7c9d8b5f4-p8m2q", "shop", "LS", 2.0, 1.5, containers=("app", "envoy")),
    pod("orders-db-0", "shop", "LSR", 4.0, 8.0, group="guaranteed"),
    pod("search-0", "shop", "LSE", 2.0, 4.0, group="guaranteed"),
    pod("spark-exec-17", "batch", "BE", 3.0, 4.0, group="besteffort"),
    pod("spark-exec-18", "batch", "BE", 3.0, 4.0, group="besteffort"),
    pod("train-resnet-5", "ml", "BE", 2.0, 6.0, group="besteffort"),
    pod("node-exporter-j4x8w", "monitoring", "", 0.1, 0.125),
)


def training() -> TrainingResult:
    """What was learnt of all pods but two, of which one is too young and one has just come."""
    young, new = PODS[0].pod.uid, PODS[-1].pod.uid
    whole = {NODE: 14.0, SYS: 0.7, **{item_uid(one): 2.0 for one in PriorityClass}}
    pods = {one.pod.uid: 1.0 + number for number, one in enumerate(PODS) if one.pod.uid != new}
    models = {
        uid: {name: ResourceAmount(cpu * part, cpu * part * GIB) for name, part in RESULTS.items()}
        for uid, cpu in (whole | pods).items()
    }
    return TrainingResult(NOW - 40.0, models, frozenset({young, new}))


def busy_node(seconds: int = 1800, step: int = 10) -> ObservedNode:
    """Half an hour of a shop in daylight, with batch pods that take what is left."""
    node = ObservedNode(
        pods=PODS,
        collectors=COLLECTORS,
        infos=MACHINE,
        peaks=PEAKS,
        predictions=dict(PREDICTIONS),
        training=training(),
        reports=dict(REPORTS),
        jobs=JOBS,
        ages={
            "pods": InformerAge(3.2),
            "NodeSLO": InformerAge(812.0, "API server: connection refused"),
        },
    )
    for ago in range(seconds, -1, -step):
        at = NOW - 1 - ago
        samples = list(_pod_samples(at))
        # One that ended ten minutes ago.
        if ago > 600:
            samples += _of("pod", ("uid-ended",), 0.8 + 0.2 * math.sin(at / 90), 1.2 * GIB)
        cpu = sum(one.value for one in samples if one.series.kind == "pod_cpu_usage")
        memory = sum(one.value for one in samples if one.series.kind == "pod_memory_usage")
        samples += _node_samples(at, cpu, memory)
        node.cache.append(at, samples)
    return node


def _pod_samples(at: float) -> Iterator[Sample]:
    for number, record in enumerate(PODS):
        demand = record.demand or Demand()
        asked = next(iter(demand.requests.values())) / 1000
        memory = list(demand.requests.values())[1]
        best_effort = record.pod.labels.get(LABEL_QOS) == "BE"
        day = 0.55 + 0.25 * math.sin(at / 400 + number / 3) + 0.05 * math.sin(at / 37 + number)
        used = asked * ((1.0 - day * 0.7) if best_effort else day)
        uid = record.pod.uid
        yield from _of("pod", (uid,), used, memory * (0.7 + 0.15 * day))
        throttled = max(0.0, 0.3 * math.sin(at / 200)) if best_effort else 0.002
        yield Sample(Series("pod_cpu_throttled", (uid,)), throttled)
        pressure = 18.0 * (1 - day) if best_effort else 1.2 * day
        for resource, part in (("cpu", 1.0), ("mem", 0.1), ("io", 0.3)):
            yield Sample(Series("pod_psi", (uid, resource, "avg10", "some")), pressure * part)
        for place, (identity, one) in enumerate(record.containers.items()):
            part = (0.85, 0.15)[place] if len(record.containers) > 1 else 1.0
            yield from _of("container", (uid, identity), used * part, memory * part * 0.6)
            yield Sample(Series("container_cpu_throttled", (uid, one.id)), throttled)


def _node_samples(at: float, cpu: float, memory: float) -> Iterator[Sample]:
    system = 0.6 + 0.1 * math.sin(at / 60)
    yield from _of("sys", (), system, 2.1 * GIB)
    yield from _of("host_application", ("nginx",), 0.4, 0.3 * GIB)
    yield from _of("node", (), cpu + system + 0.4, memory + 2.4 * GIB)
    for numa in ("0", "1"):
        yield from _of("node_numa", (numa,), (cpu + system) / 2, (memory + 2.4 * GIB) / 2)
    for resource, scale in (("cpu", 6.0), ("mem", 0.8), ("io", 2.5)):
        wave = scale * (1.1 + math.sin(at / 250 + scale))
        yield Sample(Series("node_psi", (resource, "avg10", "some")), wave)
        if resource != "cpu":
            yield Sample(Series("node_psi", (resource, "avg10", "full")), wave / 3)
    for allocation, amount in (("usage", 4200.0), ("request", 8000.0), ("real-limit", 9000.0)):
        yield Sample(Series("node_be", ("cpu", allocation)), amount)


def _of(who: str, labels: tuple[str, ...], cpu: float, memory: float) -> list[Sample]:
    return [
        Sample(Series(f"{who}_cpu_usage", labels), cpu),
        Sample(Series(f"{who}_memory_usage", labels), memory),
    ]


def renamed(record: PodRecord, name: str) -> PodRecord:
    """The same pod under a name that somebody chose with care."""
    made = replace(record.pod, name=name)
    containers = {key: replace(one, pod=made) for key, one in record.containers.items()}
    return replace(record, pod=made, containers=containers)


def full_node() -> ObservedNode:
    """One on which every kind has been measured once, so that every metric is served."""
    node = busy_node(seconds=0)
    record = PODS[0]
    values = {
        "pod_uid": record.pod.uid,
        "container_id": next(iter(record.containers)),
        "psi_resource": "cpu",
        "psi_precision": "avg10",
        "psi_degree": "some",
        "cpi_resource": "cycle",
        "be_resource": "cpu",
        "be_allocation": "usage",
        "qos": "BE",
        "resctrl_mb_type": "local",
        "host_app_name": "nginx",
    }
    node.cache.append(
        NOW - 1,
        [
            Sample(Series(kind.name, tuple(values.get(name, "0") for name in kind.labels)), 1.0)
            for kind in KINDS.values()
        ],
    )
    return node
