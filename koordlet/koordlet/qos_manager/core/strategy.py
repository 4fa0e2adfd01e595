"""The contract of strategies: their input and their plans. No IO.

A strategy is a module or a folder in ``qos_manager/strategies``, found by name (or an entry point
of ``pykoord.strategies``), with

- ``GATE``: the feature gate that switches it on,
- ``INTERVAL``: the setting (a field of ``config.Settings``) that is its interval, or seconds,
- ``Settings``: a frozen dataclass whose fields all have defaults and a docstring each,
- ``settings(slo) -> Settings``: its settings in the NodeSLO,
- ``plan(view, settings, memory) -> Plan``: what it wants now.

A plan is complete: the executor restores a knob that the last plan set and this one does not,
to the value it found or the one that hooks want. A strategy that has nothing to do or is
disabled returns an empty plan and need not clean up.
``memory`` is ``Plan.memory`` of its last plan, ``None`` at first and after a restart: a
strategy then starts from the values of the cgroups. It stores nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_model.decision import Decision as Decision
from koord_model.decision import Term as Term
from koord_model.decision import shown as shown
from koord_model.demand import Amounts, Demand
from koord_model.node import NamedPool, NodeView
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, Processor
from koord_model.node_slo import NodeSLO
from koord_model.pod import Container, runs_in_vm
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class, qos_class_or_default
from koord_model.resctrl import ResctrlLimits
from koord_model.strategy_mode import StrategyMode as StrategyMode

from koordlet.metrics_advisor.contract.collector import LatestValues, NoLatestValues
from koordlet.qos_manager.core.view_readers import CgroupReader as CgroupReader
from koordlet.qos_manager.core.view_readers import EmptyCgroups as EmptyCgroups
from koordlet.qos_manager.core.view_readers import EmptyHistory as EmptyHistory
from koordlet.qos_manager.core.view_readers import MetricHistory as MetricHistory
from koordlet.qos_manager.core.view_readers import WindowStats as WindowStats
from koordlet.states_informer.state.pod_inventory import PodRecord
from koordlet.states_informer.state.share_pools import ReservedCPUs

# ---- the input of a strategy


@dataclass(frozen=True)
class ContainerView:
    """A container and its cgroup."""

    container: Container
    group: str


@dataclass(frozen=True)
class PodView:
    """A pod that runs, with its cgroup and those of its containers.

    Made once for a record: the same object as long as nothing of the pod changes.
    """

    record: PodRecord
    group: str
    containers: tuple[ContainerView, ...] = ()

    @property
    def uid(self) -> str:
        """The pod's UID, the label of its series."""
        return self.record.pod.uid

    @property
    def name(self) -> str:
        """Its "namespace/name", for people."""
        return self.record.pod.full_name

    @cached_property
    def kube(self) -> KubeQoS:
        """Kubernetes' own class."""
        return kube_qos(self.record.pod.cgroup_parent)

    @cached_property
    def asked_qos(self) -> QoSClass:
        """The class its label asks for; ``NONE`` without one."""
        return qos_class(self.record.pod.labels)

    @cached_property
    def qos(self) -> QoSClass:
        """That class, or the one that Kubernetes' class is taken for."""
        return qos_class_or_default(self.record.pod.labels, self.kube)

    @cached_property
    def priority_class(self) -> PriorityClass:
        """Koordinator's priority class, or the one its quality class implies."""
        return priority_class_or_default(self.record.pod.labels, self.priority, self.kube)

    @property
    def priority(self) -> int | None:
        """``spec.priority``; ``None`` where it is not known."""
        return self.record.demand.priority if self.record.demand else None

    @property
    def demand(self) -> Demand | None:
        """Demand of its specification; ``None`` for pods that are in no list yet."""
        return self.record.demand

    @property
    def requests(self) -> Amounts:
        """Requests: CPU and batch-cpu in millicores, memory in bytes."""
        return self.record.demand.requests if self.record.demand else {}

    @property
    def limits(self) -> Amounts:
        """Its limits, in the same units."""
        return self.record.demand.limits if self.record.demand else {}

    @cached_property
    def in_vm(self) -> bool:
        """True if its processes run in a virtual machine: host knobs have no effect then."""
        return runs_in_vm(self.record.pod)


@dataclass(frozen=True, slots=True)
class StrategySignal:
    """A number that one strategy found out for others, and for ``/metrics``.

    ``name`` and ``pod`` ("namespace/name", "" for the node) identify it within its strategy.
    """

    name: str
    value: float
    pod: str = ""


@dataclass(frozen=True)
class StrategyView:
    """A frozen snapshot of the node: the only input of a strategy.

    ``at`` is the wall clock, seconds since the epoch, and may jump; ``steady`` is
    CLOCK_MONOTONIC in seconds: use it for intervals. ``pods_known`` is whether ``pods`` are
    all that run, ``pods_fresh`` whether the list is recent: an old list evicts nobody.
    ``allocatable`` is what the Node has for pods, by resource (CPU
    in millicores, batch-cpu too), empty where the Node is not known. ``reserved_cpu`` is
    what the kubelet and the Node's reservation annotation keep back, in cores, and
    ``set_aside`` which CPUs. ``signals`` are those of the last round, by strategy.
    ``evicting`` are the UIDs of pods that are on their way out.
    """

    at: float
    steady: float
    layout: Layout
    pods: tuple[PodView, ...] = ()
    pods_known: bool = True
    pods_fresh: bool = True
    node: NodeView = field(default_factory=NodeView)
    latest: LatestValues = field(default_factory=NoLatestValues)
    history: MetricHistory = field(default_factory=EmptyHistory)
    cgroups: CgroupReader = field(default_factory=EmptyCgroups)
    allocatable: Amounts = field(default_factory=dict)
    reserved_cpu: float = 0.0
    set_aside: ReservedCPUs = field(default_factory=ReservedCPUs)
    signals: Mapping[str, tuple[StrategySignal, ...]] = field(default_factory=dict)
    evicting: frozenset[str] = frozenset()

    @property
    def slo(self) -> NodeSLO:
        """The NodeSLO of this node."""
        return self.node.slo

    @cached_property
    def cpus(self) -> tuple[Processor, ...]:
        """The CPUs that run; empty until they are known."""
        info = self.latest.info(NodeCPUInfo)
        return info.online if info is not None else ()

    @cached_property
    def memory_bytes(self) -> int | None:
        """All of the node's memory; ``None`` until it is known."""
        info = self.latest.info(NodeMemoryInfo)
        return info.total if info is not None else None

    @property
    def be_group(self) -> str:
        """The cgroup above all best-effort pods."""
        return self.layout.kube_qos_group(KubeQoS.BEST_EFFORT)

    def signal(self, strategy: str, name: str, pod: str = "") -> float | None:
        """A signal of the last round; ``None`` where there is none."""
        for signal in self.signals.get(strategy, ()):
            if signal.name == name and signal.pod == pod:
                return signal.value
        return None


# ---- what it wants


class EvictionVictim(NamedTuple):
    """A pod that may be evicted, and how much of the claim's resource that frees."""

    pod: PodView
    releases: float


@dataclass(frozen=True, slots=True)
class EvictionClaim:
    """So much of a resource is to be freed, by evicting victims: the first goes first.

    ``resource`` is "cpu" (cores), "memory" (bytes), a resource's name where requests are what is
    freed, or another word with its own unit.
    ``opt_in`` is whether only pods labelled ``koordinator.sh/eviction-enabled=true`` may go.
    ``rule`` is the feature gate's name ("MemoryEvict"), which is what a pod's annotation
    ``koordinator.sh/eviction-policy`` lists. ``forced`` is whether it may
    not wait: a hard threshold. ``notice_seconds`` is how long a pod is warned before it goes.
    ``foreign`` is whether others than koordlet want it: such claims are served last, and by half of
    the minute's budget. ``shadow`` is whether it is only shown, though the strategy is on.
    """

    rule: str
    resource: str
    need: float
    victims: tuple[EvictionVictim, ...]
    decision: Decision
    opt_in: bool = True
    forced: bool = False
    notice_seconds: float = 0.0
    foreign: bool = False
    shadow: bool = False


class PodNotice(NamedTuple):
    """Something people should know of a pod: becomes an Event on it.

    ``reason`` is one CamelCase word, ``message`` one line. ``of_eviction`` is whether it
    announces one: it is not said where nobody is evicted.
    """

    pod: PodView
    reason: str
    message: str
    warning: bool = True
    of_eviction: bool = False


class CacheClass(NamedTuple):
    """A shared resctrl group, and the cgroups whose tasks belong in it."""

    limits: ResctrlLimits
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a strategy wants now.

    ``desired`` are states of knobs; ``one_shot`` are writes that are done once and leave no
    state (``memory.reclaim``). ``set_aside`` are CPUs that no pod is to run on, but those of
    ``pools``, which are among them.
    """

    desired: tuple[DesiredValue, ...] = ()
    decisions: tuple[Decision, ...] = ()
    claims: tuple[EvictionClaim, ...] = ()
    one_shot: tuple[DesiredValue, ...] = ()
    caches: tuple[CacheClass, ...] = ()
    signals: tuple[StrategySignal, ...] = ()
    notices: tuple[PodNotice, ...] = ()
    set_aside: frozenset[int] = frozenset()
    pools: tuple[NamedPool, ...] = ()
    memory: Any = None


NOTHING = Plan()
"""Plan of a strategy that has nothing to do, and nothing to remember."""


def desired_value(
    group: str, knob: str, value: Value, decision: Decision, pod: str = ""
) -> DesiredValue:
    """A desired value that carries the reason of its decision."""
    return DesiredValue(Target(group, knob), value, str(decision), pod or decision.pod)


def owner(strategy: str) -> Owner:
    """The owner of a strategy's desired values."""
    return Owner(strategy, Priority.STRATEGY)


# ---- a strategy, as the round knows it


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy: a module's parts, or what an entry point gave.

    ``interval`` is seconds. ``settings_type`` is its ``Settings``.
    """

    name: str
    gate: str
    interval: float
    settings_type: type
    settings: Callable[[NodeSLO], Any]
    plan: Callable[[StrategyView, Any, Any], Plan]
