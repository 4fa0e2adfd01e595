"""Documents of koordlet's pages, as typed values.

CPU is in cores, memory in bytes, pressure in percent, throttling a ratio; ``None`` is
what koordlet does not know. Everything else has a default, as in ``answers``.
"""

from __future__ import annotations

import msgspec


class Capacity(msgspec.Struct, frozen=True):
    """Capacity of the machine."""

    cpu: float | None = None
    memory: int | None = None


class ResourceUsage(msgspec.Struct, frozen=True):
    """Usage of the machine."""

    cpu: float | None = None
    memory: int | None = None


class ContentionRow(ResourceUsage, frozen=True):
    """Usage, requests, limits and contention."""

    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_request: int | None = None
    memory_limit: int | None = None
    throttled: float | None = None
    psi_cpu: float | None = None
    psi_memory: float | None = None
    psi_io: float | None = None
    sched_wait: float | None = None
    memory_delay: float | None = None
    disk_wait: float | None = None
    tcp_rtt: float | None = None
    tcp_retransmits: float | None = None


class PodRow(ContentionRow, frozen=True):
    """One pod of /v1/top."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    qos: str = ""
    phase: str = ""


class ClassRow(ContentionRow, frozen=True):
    """One quality class."""

    qos: str = ""
    pods: int = 0


class NodeRow(ResourceUsage, frozen=True):
    """The node; pressure by resource and degree, predicted peaks by what and resource."""

    name: str = ""
    capacity: Capacity = Capacity()
    psi: dict[str, dict[str, float]] = {}
    peaks: dict[str, dict[str, float]] | None = None


class HostApplicationRow(ResourceUsage, frozen=True):
    """One of those beside Kubernetes that NodeSLO names."""

    name: str = ""


class TopDocument(msgspec.Struct, frozen=True):
    """/v1/top; ``at`` is seconds since the epoch."""

    at: float
    node: NodeRow
    system: ResourceUsage = ResourceUsage()
    host_applications: list[HostApplicationRow] = []
    classes: list[ClassRow] = []
    pods: list[PodRow] = []


class MachineInfo(msgspec.Struct, frozen=True):
    """The machine's CPUs; ``smt`` and ``turbo`` are whether they are on."""

    model: str = ""
    sockets: int = 0
    cores: int = 0
    numa_nodes: int = 0
    smt: bool | None = None
    turbo: bool | None = None


class NumaNodeRow(msgspec.Struct, frozen=True):
    """One NUMA node."""

    id: int
    cpus: int = 0
    memory: int | None = None
    cpu_used: float | None = None
    memory_used: int | None = None


class CollectorRow(msgspec.Struct, frozen=True):
    """One collector; ``state`` is works, waiting, unavailable or off. Times in seconds."""

    name: str
    state: str = ""
    interval: float = 0.0
    seconds: float = 0.0
    rounds: int = 0
    samples: int = 0
    reason: str = ""


class MetricCacheState(msgspec.Struct, frozen=True):
    """Fill of the metric cache."""

    series: int = 0
    capacity: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    refused: int = 0
    problem: str = ""


class StateRow(msgspec.Struct, frozen=True):
    """Age of a state, and the reason why there is no newer one."""

    age_seconds: float | None = None
    problem: str = ""


class ReportRow(msgspec.Struct, frozen=True):
    """A report to the cluster; ``way`` is "direct", "object", or "" where none went last."""

    way: str = ""
    leader: str = ""
    age_seconds: float | None = None
    sent: dict[str, int] = {}
    failures: int = 0
    problem: str = ""


class CPUWeights(msgspec.Struct, frozen=True):
    """The runtime's formula from shares to weights, "" while unknown, and its evidence."""

    formula: str = ""
    group: str = ""
    shares: int = 0
    weight: int = 0


class JobRow(msgspec.Struct, frozen=True):
    """Something slow that koordlet does to the node; "waiting", "running" or "overdue"."""

    job: str
    target: str = ""
    owner: str = ""
    state: str = ""
    age_seconds: float = 0.0
    deadline_seconds: float = 0.0


class NodeDocument(msgspec.Struct, frozen=True):
    """/v1/node."""

    node: str
    at: float
    version: str = ""
    read_only: bool = False
    dry_run: bool = False
    capacity: Capacity = Capacity()
    machine: MachineInfo | None = None
    usage: ResourceUsage = ResourceUsage()
    system: ResourceUsage = ResourceUsage()
    psi: dict[str, dict[str, float]] = {}
    numa: list[NumaNodeRow] = []
    peaks: dict[str, dict[str, float]] | None = None
    collectors: list[CollectorRow] = []
    cache: MetricCacheState = MetricCacheState()
    states: dict[str, StateRow] = {}
    reports: dict[str, ReportRow] = {}
    cpu_weights: CPUWeights | None = None
    jobs: list[JobRow] = []


class PredictorRow(msgspec.Struct, frozen=True):
    """Prediction of one predictor; ``reclaimable`` is ``None`` where it is not known."""

    peak: ResourceUsage = ResourceUsage()
    reclaimable: ResourceUsage | None = None


class Model(msgspec.Struct, frozen=True):
    """Percentiles ("p60" to "max") of usage, by name; ``item`` is a part of the node.

    Both are empty where there is no model.
    """

    item: str = ""
    cpu: dict[str, float] = {}
    memory: dict[str, int] = {}


class PodModel(Model, frozen=True):
    """A pod and its model; one that is ``cold`` counts with its request."""

    uid: str = ""
    name: str = ""
    namespace: str = ""
    qos: str = ""
    cold: bool = False
    cpu_request: float | None = None
    memory_request: int | None = None


class PredictionsDocument(msgspec.Struct, frozen=True):
    """/v1/predictions; times are seconds since the epoch."""

    at: float
    pods: list[PodModel]
    trained_at: float | None = None
    node: str = ""
    predictors: dict[str, PredictorRow] = {}
    models: list[Model] = []


class EventRow(msgspec.Struct, frozen=True, rename="camel"):
    """One change, decision or answer; ``type`` is node, pod, group or unknown.

    ``created_at`` is RFC 3339. A decision has an ``outcome``, and no knob; ``owner`` is its
    strategy. The answer to a hook call has a ``hook``.
    """

    created_at: str = ""
    type: str = ""
    namespace: str = ""
    name: str = ""
    container: str = ""
    owner: str = ""
    group: str = ""
    knob: str = ""
    old: int | str | None = None
    new: int | str | None = None
    why: str = ""
    mode: str = ""
    aspect: str = ""
    outcome: str = ""
    hook: str = ""
    transport: str = ""
    message: str = ""


class EventsDocument(msgspec.Struct, frozen=True, rename="pascal"):
    """/events: a page, the newest first; the token is "" where there are no more."""

    events: list[EventRow]
    next_page_token: str = ""


class MetricKindRow(msgspec.Struct, frozen=True):
    """One row of /v1/metrics/kinds."""

    name: str
    unit: str = ""
    meaning: str = ""
    labels: list[str] = []


class MetricKindsDocument(msgspec.Struct, frozen=True):
    """/v1/metrics/kinds."""

    kinds: list[MetricKindRow]


class SeriesRow(msgspec.Struct, frozen=True):
    """One series: aggregates by name, and its points, ``None`` where there are none."""

    labels: dict[str, str] = {}
    who: str = ""
    values: dict[str, float] = {}
    count: int = 0
    last: float = 0.0
    points: list[float | None] = []


class SeriesDocument(msgspec.Struct, frozen=True):
    """/v1/metrics/query."""

    kind: str
    at: float
    series: list[SeriesRow]
    unit: str = ""
    window_seconds: float = 0.0
    left_out: int = 0


class DecisionTerm(msgspec.Struct, frozen=True):
    """A number that went into a decision; ``shown`` is it with its unit, for people."""

    name: str
    value: int | float | str | None = None
    unit: str = ""
    shown: str = ""


class DecisionRow(msgspec.Struct, frozen=True):
    """A decision: its outcome, and the arithmetic that led there.

    ``pod`` and ``group`` are what it is about, without both the node; ``aspect`` is which of
    several decisions about it.
    """

    strategy: str
    outcome: str = ""
    mode: str = ""
    aspect: str = ""
    pod: str = ""
    group: str = ""
    formula: str = ""
    given: list[DecisionTerm] = []

    @property
    def about(self) -> tuple[str, str, str, str]:
        """Identity of the question, which all of its outcomes share."""
        return self.strategy, self.aspect, self.pod, self.group


class CurrentDecisionRow(DecisionRow, frozen=True):
    """One that stands since then, with the numbers of when it was said last."""

    since: float = 0.0
    said_at: float = 0.0


class PastDecisionRow(DecisionRow, frozen=True):
    """One of the history; ``until`` is ``None`` where it stands, or nobody knows."""

    at: float = 0.0
    until: float | None = None


class DesiredValueRow(msgspec.Struct, frozen=True):
    """The value desired of a cgroup's knob; ``conflict`` is other owners and theirs."""

    knob: str
    value: int | str | None = None
    owner: str = ""
    why: str = ""
    conflict: str = ""


class ChangedFieldRow(msgspec.Struct, frozen=True):
    """A plugin's change of a request's field; ``None``: not set."""

    field: str
    requested: int | str | None = None
    answered: int | str | None = None


class PluginAnswerRow(msgspec.Struct, frozen=True):
    """One plugin's changes, and their reason."""

    plugin: str
    why: str = ""
    fields: list[ChangedFieldRow] = []


class HookAnswerRow(msgspec.Struct, frozen=True):
    """An answer that was given so many ``times`` since then, the last time at ``at``.

    ``container`` is "" for the pod itself.
    """

    hook: str
    at: float
    since: float = 0.0
    times: int = 1
    pod: str = ""
    container: str = ""
    transport: str = ""
    plugins: list[PluginAnswerRow] = []
    notes: list[str] = []


class KnobRow(msgspec.Struct, frozen=True):
    """Present value of a knob, or the ``problem`` with it, and the desired one with its owner."""

    knob: str
    value: int | str | None = None
    problem: str = ""
    desired: int | str | None = None
    owner: str = ""
    why: str = ""
    conflict: str = ""


class CgroupRow(msgspec.Struct, frozen=True):
    """A cgroup of a pod, or of its ``container``."""

    group: str
    pod: str = ""
    container: str = ""
    knobs: list[KnobRow] = []


class StrategyRow(msgspec.Struct, frozen=True):
    """State of a strategy; ``latest`` is its last outcome. Times in seconds."""

    name: str
    gate: str = ""
    mode: str = ""
    enabled: bool = True
    reason: str = ""
    rounds: int = 0
    failures: int = 0
    overruns: int = 0
    seconds: float = 0.0
    decided_at: float = 0.0
    decisions: int = 0
    latest: CurrentDecisionRow | None = None


class IgnoredRow(msgspec.Struct, frozen=True):
    """A line on something that a pod says without any effect."""

    pod: str = ""
    line: str = ""


class WhyDocument(msgspec.Struct, frozen=True):
    """/v1/why; times are seconds since the epoch, ``pods`` those that run and are called so."""

    at: float
    decides: bool
    node: str = ""
    reason: str = ""
    pods: list[str] = []
    ignored: list[IgnoredRow] = []
    hooks: list[HookAnswerRow] = []
    cgroups: list[CgroupRow] = []
    decisions: list[CurrentDecisionRow] = []
    history: list[PastDecisionRow] = []
    wishes: list[DesiredValueRow] = []
    strategies: list[StrategyRow] = []


class HealthRow(msgspec.Struct, frozen=True):
    """ok, degraded or failed, with the reasons."""

    status: str = ""
    reasons: list[str] = []


class NriRow(msgspec.Struct, frozen=True):
    """The connection to the runtime's NRI socket; ``reason`` says why there is none."""

    connected: bool = False
    socket: str = ""
    calls: int = 0
    reason: str = ""


class HooksRow(msgspec.Struct, frozen=True):
    """Servers of hook calls."""

    socket: str = ""
    registration: str = ""
    plugins: list[str] = []
    stages: list[str] = []
    nri: NriRow = NriRow()


class KoordletStatus(msgspec.Struct, frozen=True):
    """/v1/status."""

    version: str
    health: HealthRow = HealthRow()
    hooks: HooksRow = HooksRow()
    started_at: float | None = None
    mode: str = ""
