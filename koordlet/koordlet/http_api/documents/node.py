"""Documents about the node: plain values, ready for JSON. No IO.

CPU is in cores, memory in bytes, pressure (PSI) in percent of the time, throttling a
ratio of periods. What is not known is ``None``, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from koord_host.knobs.weights import RuntimeWeights
from koord_host.planning.jobs import JobState
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo
from koord_model.version import VERSION
from koord_prediction.peak import PredictedPeak

from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.metrics_advisor.contract.collector import CollectorState, LatestValues
from koordlet.prediction.training_result import TrainingResult
from koordlet.states_informer.state.informer_age import InformerAge
from koordlet.states_informer.state.pod_inventory import PodRecord

Document = dict[str, Any]
Peaks = Mapping[str, Mapping[str, float]]
"""Predicted peaks by what they are of ("prod" …): "cpu" in cores, "memory" in bytes."""

_FRESH_SECONDS = {1: 30.0, 5: 30.0, 10: 150.0}
"""Greatest age of the newest point, by the step of its kind: some rounds of the slowest."""
_STUCK_SECONDS = 120.0
_PSI = {"cpu": "cpu", "mem": "memory", "io": "io"}
_PSI_PRECISION = "avg10"


@dataclass(frozen=True, slots=True)
class ReportState:
    """State of a report to the cluster.

    ``way`` is how the last one went ("direct": to the manager's ``leader``, "object"; "":
    none did). ``reported_at`` is when the cluster last had all that we know, seconds since
    the epoch, 0 for never. ``sent`` counts by way, ``failures`` are attempts that failed.
    ``problem`` is "" while all is well.
    """

    way: str
    reported_at: float
    sent: Mapping[str, int]
    failures: int
    problem: str
    leader: str = ""


@dataclass(frozen=True, slots=True)
class DocumentSources:
    """Sources of documents: the observer's parts, all safe to ask from any thread.

    ``clock`` is the wall clock, seconds since the epoch. ``node`` is the node's name,
    ``read_only`` and ``dry_run`` whether koordlet only observes it.
    ``predictions`` are by predictor, ``reports`` by the kind of object. ``jobs`` are what
    takes long on the node.
    ``weights`` are the runtime's, ``None`` on cgroup v1, which has none.
    """

    cache: MetricCache
    collectors: Callable[[], tuple[CollectorState, ...]]
    latest: LatestValues
    pods: Callable[[], tuple[PodRecord, ...]]
    ages: Callable[[], Mapping[str, InformerAge]]
    peaks: Callable[[], Peaks | None]
    clock: Callable[[], float]
    node: str = ""
    read_only: bool = False
    dry_run: bool = False
    predictions: Callable[[], Mapping[str, PredictedPeak]] = dict
    training: Callable[[], TrainingResult] = TrainingResult
    reports: Callable[[], Mapping[str, ReportState]] = dict
    weights: RuntimeWeights | None = None
    jobs: Callable[[], tuple[JobState, ...]] = tuple

    def newest(self, kind: str) -> Mapping[tuple[str, ...], float]:
        """The newest value of each series of a kind, by its labels."""
        now = self.clock()
        window = TimeWindow(now - _FRESH_SECONDS[KINDS[kind].step], now)
        found = self.cache.aggregate(kind, window, (Aggregation.LAST,))
        values = found.values[Aggregation.LAST]
        return {series.labels: float(values[i]) for i, series in enumerate(found.series)}

    def value(self, kind: str) -> float | None:
        """The newest value of a kind without labels."""
        return self.newest(kind).get(())


def node_document(observed: DocumentSources) -> Document:
    """The machine, what is used of it, and how the observing itself fares."""
    peaks, now = observed.peaks(), observed.clock()
    return {
        "node": observed.node,
        "version": VERSION,
        "read_only": observed.read_only,
        "dry_run": observed.dry_run,
        "at": now,
        "capacity": capacity(observed.latest),
        "machine": _machine(observed.latest.info(NodeCPUInfo)),
        "usage": {
            "cpu": cores(observed.value("node_cpu_usage")),
            "memory": whole(observed.value("node_memory_usage")),
            "memory_with_page_cache": whole(observed.value("node_memory_usage_with_page_cache")),
        },
        "system": system_usage(observed),
        "psi": node_psi(observed),
        "numa": _numa(observed),
        "peaks": None if peaks is None else {name: dict(peak) for name, peak in peaks.items()},
        "collectors": [_collector(collector) for collector in observed.collectors()],
        "cache": asdict(observed.cache.state()),
        "states": {name: asdict(age) for name, age in observed.ages().items()},
        "reports": {name: _report(report, now) for name, report in observed.reports().items()},
        "cpu_weights": _weights(observed.weights),
        "jobs": [_job(job) for job in observed.jobs()],
    }


def health_document(observed: DocumentSources) -> tuple[Document, bool]:
    """Report whether koordlet does its work; what is only degraded leaves it alive."""
    now = observed.clock()
    stuck = [
        f"collector {collector.name} has not looked for {now - collector.looked_at:.0f} s"
        for collector in observed.collectors()
        if collector.enabled
        and collector.rounds
        and now - collector.looked_at > 5 * collector.interval + _STUCK_SECONDS
    ]
    problem = observed.cache.state().problem
    degraded = [f"metric cache: {problem}"] if problem else []
    degraded += [f"{name}: {age.problem}" for name, age in observed.ages().items() if age.problem]
    reports = observed.reports().items()
    degraded += [f"report {name}: {report.problem}" for name, report in reports if report.problem]
    degraded += [
        f"job {' '.join(filter(None, job.key[:2]))} hangs: began {job.age:.0f} s ago"
        for job in observed.jobs()
        if job.state == "overdue"
    ]
    status = "failed" if stuck else "degraded" if degraded else "ok"
    return {"status": status, "reasons": [*stuck, *degraded]}, not stuck


def ready_document(observed: DocumentSources) -> tuple[Document, bool]:
    """Report whether everything has been looked at once."""
    reasons = [
        f"collector {collector.name} has not looked yet"
        for collector in observed.collectors()
        if collector.enabled and not collector.rounds
    ]
    reasons += [
        f"{name}: {age.problem or 'not known yet'}"
        for name, age in observed.ages().items()
        # Waiting for a CRD would hold up the roll-out of a whole cluster without it.
        if age.age_seconds is None and not age.absent
    ]
    return {"status": "waiting" if reasons else "ok", "reasons": reasons}, not reasons


def capacity(latest: LatestValues) -> Document:
    """Describe the machine's capacity; CPUs are those online."""
    cpus, memory = latest.info(NodeCPUInfo), latest.info(NodeMemoryInfo)
    return {
        "cpu": None if cpus is None else len(cpus.online),
        "memory": None if memory is None else memory.total,
    }


def system_usage(observed: DocumentSources) -> Document:
    """Describe the usage of neither pods nor host applications."""
    return {
        "cpu": cores(observed.value("sys_cpu_usage")),
        "memory": whole(observed.value("sys_memory_usage")),
    }


def node_psi(observed: DocumentSources) -> Document:
    """Pressure of the node by resource: "some" and "full"; empty where it is not measured."""
    found: Document = {}
    for (resource, precision, degree), value in observed.newest("node_psi").items():
        if precision == _PSI_PRECISION and resource in _PSI:
            found.setdefault(_PSI[resource], {})[degree] = round(value, 3)
    return found


def some_psi(
    newest: Mapping[tuple[str, ...], float],
) -> Mapping[tuple[str, ...], Mapping[str, float]]:
    """Of a pod's or container's pressures the 10 s "some", by who has it and resource."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for (*who, resource, precision, degree), value in newest.items():
        if (precision, degree) == (_PSI_PRECISION, "some") and resource in _PSI:
            found.setdefault(tuple(who), {})[_PSI[resource]] = round(value, 3)
    return found


def cores(value: float | None) -> float | None:
    """Rounded to a tenth of a millicore."""
    return None if value is None else round(value, 4)


def whole(value: float | None) -> int | None:
    """Rounded to bytes."""
    return None if value is None else round(value)


def _machine(cpus: NodeCPUInfo | None) -> Document | None:
    if cpus is None:
        return None
    return {
        "model": cpus.model,
        "vendor": cpus.vendor,
        "sockets": _distinct(processor.socket for processor in cpus.online),
        "cores": _distinct(processor.core for processor in cpus.online),
        "numa_nodes": _distinct(processor.node for processor in cpus.online),
        "smt": cpus.smt,
        "turbo": cpus.turbo,
    }


def _weights(weights: RuntimeWeights | None) -> Document | None:
    """Describe the runtime's formula for weights, and its evidence: empty while unknown."""
    if weights is None:
        return None
    found = weights.evidence
    return {} if found is None else found._asdict()


def _distinct(ids: Iterable[int]) -> int:
    return len(set(ids))


def _numa(observed: DocumentSources) -> list[Document]:
    memory = observed.latest.info(NodeMemoryInfo)
    used_cpu = observed.newest("node_numa_cpu_usage")
    used_memory = observed.newest("node_numa_memory_usage")
    return [
        {
            "id": node.id,
            "cpus": len(node.cpus),
            "memory": node.memory,
            "cpu_used": cores(used_cpu.get((str(node.id),))),
            "memory_used": whole(used_memory.get((str(node.id),))),
        }
        for node in (memory.nodes if memory is not None else ())
    ]


def report_age(state: ReportState, now: float) -> float | None:
    """Seconds since the cluster last had all that we know; ``None`` before the first time."""
    return max(now - state.reported_at, 0.0) if state.reported_at else None


def _report(state: ReportState, now: float) -> Document:
    return {
        "way": state.way,
        "leader": state.leader,
        "age_seconds": report_age(state, now),
        "sent": dict(state.sent),
        "failures": state.failures,
        "problem": state.problem,
    }


def _job(job_state: JobState) -> Document:
    """Describe a slow job that runs or waits now."""
    return {
        "job": job_state.key.kind,
        "target": job_state.key.target,
        "owner": job_state.key.owner,
        "state": job_state.state,
        "age_seconds": job_state.age,
        "deadline_seconds": job_state.seconds,
    }


def _collector(state: CollectorState) -> Document:
    if not state.enabled:
        word = "off"
    elif not state.available:
        word = "unavailable"
    else:
        word = "works" if state.rounds else "waiting"
    return {**asdict(state), "state": word}
