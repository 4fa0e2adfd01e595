"""Builders of what strategies are given: Views, PodViews, measured values, cgroups.

Values are by ``(kind, *labels)`` (``collecting.kinds``), knobs by ``(group, knob)``:

    pods = (pod_view("web", qos=QoSClass.LS, requests={"cpu": 2000}), pod_view("job", kube=BE))
    latest = FakeLatest({("node_cpu_usage",): 12.0}, cpu_info(8), pod_cpu_usage={"web": 3.0})
    plan = cpu_suppress.plan(view(pods=pods, latest=latest), settings, None)

A pod's UID is its name unless another is given; its namespace is "ns".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Driver, Layout
from koord_model.demand import Amounts, Demand
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS
from koord_model.node import NodeView, Topology
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, NumaNode, Processor
from koord_model.node_slo import NodeSLO
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass
from koordlet.metric_cache.core.metric_kinds import KINDS
from koordlet.qos_manager.core.strategy import (
    ContainerView,
    PodView,
    StrategySignal,
    StrategyView,
    WindowStats,
)
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

V1 = Layout(1, Driver.CGROUPFS)
V2 = Layout(2, Driver.SYSTEMD)
LAYOUTS = tuple(Layout(version, driver) for version in (1, 2) for driver in Driver)
"""Both cgroup versions with both drivers."""
LAYOUT_IDS = tuple(f"v{one.version}-{one.driver}" for one in LAYOUTS)

AT = 1_800_000_000.0
STEADY = 10_000.0
GIB = 1 << 30

BE = KubeQoS.BEST_EFFORT
F = TypeVar("F")
Key = tuple[str, ...]

_KUBE = {
    QoSClass.LSE: KubeQoS.GUARANTEED,
    QoSClass.LSR: KubeQoS.GUARANTEED,
    QoSClass.LS: KubeQoS.BURSTABLE,
    QoSClass.BE: KubeQoS.BEST_EFFORT,
    QoSClass.SYSTEM: KubeQoS.BURSTABLE,
    QoSClass.NONE: KubeQoS.BURSTABLE,
}


def pod_view(
    name: str = "web",
    *,
    qos: QoSClass = QoSClass.NONE,
    kube: KubeQoS | None = None,
    priority: int | None = None,
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    containers: Iterable[str] | Mapping[str, tuple[Amounts, Amounts]] = ("main",),
    cpuset: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    layout: Layout = V2,
    uid: str = "",
    listed: bool = True,
    runtime_handler: str = "",
    started: float = 0.0,
    **demand: Any,
) -> PodView:
    """A pod that runs.

    ``kube`` is Kubernetes' class: without it, the one that pods of class ``qos`` have.
    ``containers`` are names, or (requests, limits) by name; a container's id is
    "ID-NAME" with the pod's UID for ID. One container alone has the pod's own
    requests and limits. ``cpuset`` are CPUs that the scheduler gave it. A pod that is not
    ``listed`` has no demand. ``demand`` are other fields of ``Demand``.
    """
    uid = uid or name
    kube = kube or _KUBE[qos]
    parent = layout.pod_group(kube, uid)
    given = {LABEL_QOS: qos.value} if qos else {}
    status = {ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpuset})} if cpuset else {}
    pod = Pod(
        name,
        "ns",
        uid,
        {**given, **(labels or {})},
        {**status, **(annotations or {})},
        cgroup_parent=f"/{parent}",
        runtime_handler=runtime_handler,
    )
    amounts = _amounts(containers, requests or {}, limits or {})
    asked = Demand(
        priority=priority,
        phase=demand.pop("phase", "Running"),
        started=started,
        requests=requests or _sum(one[0] for one in amounts.values()),
        limits=limits or _sum(one[1] for one in amounts.values()),
        container_requests={key: one[0] for key, one in amounts.items()},
        container_limits={key: one[1] for key, one in amounts.items()},
        **demand,
    )
    return pod_view_of(
        PodRecord(
            pod,
            {f"{uid}-{key}": Container(pod, key, f"{uid}-{key}") for key in amounts},
            demand=asked if listed else None,
        ),
        layout,
    )


def pod_view_of(record: PodRecord, layout: Layout = V2) -> PodView:
    """The view of a record."""
    return PodView(
        record,
        layout.group_of_parent(record.pod.cgroup_parent),
        tuple(
            ContainerView(one, container_group(record, one, layout))
            for one in record.containers.values()
        ),
    )


def _amounts(
    containers: Iterable[str] | Mapping[str, tuple[Amounts, Amounts]],
    requests: Amounts,
    limits: Amounts,
) -> dict[str, tuple[Amounts, Amounts]]:
    if isinstance(containers, Mapping):
        return dict(containers)
    names = list(containers)
    alone = (requests, limits) if len(names) == 1 else ({}, {})
    return dict.fromkeys(names, alone)


def _sum(amounts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in amounts:
        for name, number in one.items():
            total[name] = total.get(name, 0) + number
    return total


def view(
    *,
    pods: Iterable[PodView] = (),
    steady: float = STEADY,
    at: float | None = None,
    layout: Layout = V2,
    slo: NodeSLO | None = None,
    topology: Topology | None = None,
    signals: Mapping[str, Iterable[StrategySignal]] | None = None,
    **others: Any,
) -> StrategyView:
    """A node at one moment.

    ``slo`` and ``topology`` are parts of ``node``, unless that is given. The wall clock
    follows the steady one, unless ``at`` is given. ``others`` are the view's other fields.
    """
    others.setdefault("node", NodeView(topology, slo=slo or NodeSLO()))
    return StrategyView(
        at=AT + steady - STEADY if at is None else at,
        steady=steady,
        layout=layout,
        pods=tuple(pods),
        signals={name: tuple(found) for name, found in (signals or {}).items()},
        **others,
    )


def cpu_info(
    cpus: int = 64, numa: int = 2, smt: bool = True, offline: Iterable[int] = ()
) -> NodeCPUInfo:
    """A machine of ``cpus`` CPUs in ``numa`` nodes, a socket each.

    With ``smt`` CPU c and CPU c + cpus/2 are one core, as Linux numbers them. NUMA nodes
    have their CPUs in one piece (with ``smt`` two), the first nodes more if it does not
    go up evenly.
    """
    cores = (cpus + 1) // 2 if smt else cpus
    gone = frozenset(offline)
    processors = []
    for cpu in range(cpus):
        core = cpu % cores
        node = core * numa // cores
        processors.append(Processor(cpu, core, node, node, node, cpu not in gone))
    return NodeCPUInfo(tuple(processors), smt=smt)


def memory_info(total: int = 256 * GIB, numa: int = 1) -> NodeMemoryInfo:
    """A machine's memory in bytes, evenly in its NUMA nodes."""
    return NodeMemoryInfo(total, tuple(NumaNode(node, total // numa) for node in range(numa)))


class FakeLatest:
    """Newest values by ``(kind, *labels)``, and infos.

    ``by_label`` are kinds with one label, "KIND={label: value}". A kind that
    there is not, or one with other labels, is a mistake of the test.
    """

    def __init__(
        self,
        values: Mapping[Key, float] | None = None,
        *infos: object,
        **by_label: Mapping[str, float],
    ) -> None:
        self.values: dict[Key, float] = dict(values or {})
        for kind, series in by_label.items():
            self.values |= {(kind, label): value for label, value in series.items()}
        self.infos = infos
        for key in self.values:
            _check(*key)

    def value(self, kind: str, *labels: str) -> float | None:
        _check(kind, *labels)
        return self.values.get((kind, *labels))

    def total(self, kind: str) -> float | None:
        found = [value for key, value in self.values.items() if key[0] == kind]
        return sum(found) if found else None

    def info(self, kind: type[F]) -> F | None:
        return next((one for one in self.infos if isinstance(one, kind)), None)


class FakeHistory:
    """``WindowStats`` of windows by ``(kind, *labels)``, the same for a window of any length.

    ``by_seconds`` are others for windows of a certain length.
    """

    def __init__(
        self,
        series: Mapping[Key, WindowStats] | None = None,
        by_seconds: Mapping[float, Mapping[Key, WindowStats]] | None = None,
    ) -> None:
        self.series = dict(series or {})
        self.by_seconds = dict(by_seconds or {})

    def windows(self, kind: str, seconds: float) -> Mapping[tuple[str, ...], WindowStats]:
        if kind not in KINDS:
            raise KeyError(kind)
        found = self.by_seconds.get(seconds, self.series)
        return {key[1:]: one for key, one in found.items() if key[0] == kind}


def stats(
    avg: float,
    last: float | None = None,
    most: float | None = None,
    *,
    points: int = 10,
    seconds: float = 10.0,
    until: float = AT,
) -> WindowStats:
    """A series over a window: all of it as its average, but for what is said."""
    last = avg if last is None else last
    most = max(avg, last) if most is None else most
    return WindowStats(avg, last, most, points, until - seconds, until)


class FakeCgroups:
    """Knobs by ``(group, knob)``; what has no ``base`` of its own has ``now``'s.

    Groups below others are those of ``groups`` and those with a value, with all of their
    parents. ``reads`` counts what was asked for with ``now``.
    """

    def __init__(
        self,
        now: Mapping[tuple[str, str], Value] | None = None,
        base: Mapping[tuple[str, str], Value] | None = None,
        groups: Iterable[str] = (),
    ) -> None:
        self.values = dict(now or {})
        self.bases = dict(base or {})
        self.groups = set(groups)
        self.reads = 0

    def now(self, group: str, knob: str) -> Value | None:
        self.reads += 1
        return self.values.get((group, knob))

    def base(self, group: str, knob: str) -> Value | None:
        return self.bases.get((group, knob), self.values.get((group, knob)))

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        named = {*self.groups, *(place for place, _ in self.values)}
        found = {parent for name in named for parent in _with_parents(name)}
        inside = (name for name in found if name.startswith(f"{group}/"))
        return tuple(sorted(inside, key=lambda name: (name.count("/"), name)))


def groups_of(pods: Iterable[PodView]) -> list[str]:
    """The cgroups of these pods and of their containers, for ``FakeCgroups``."""
    return [name for pod in pods for name in (pod.group, *(one.group for one in pod.containers))]


def _with_parents(name: str) -> Iterable[str]:
    parts = name.split("/")
    return ("/".join(parts[: count + 1]) for count in range(len(parts)))


def _check(kind: str, *labels: str) -> None:
    assert len(labels) == len(KINDS[kind].labels), (kind, labels)
