"""The contract of strategies: what they are given, what they want. No IO.

A strategy is a module of ``koordlet.strategies``, found by its name (or one of the entry
points ``pykoord.strategies``), with

- ``GATE``: the feature gate that switches it on,
- ``INTERVAL``: the setting (a field of ``config.Settings``) that is its interval, or seconds,
- ``Settings``: a frozen dataclass whose fields all have defaults and a docstring each,
- ``settings(slo) -> Settings``: what the NodeSLO asks of it,
- ``plan(view, settings, memory) -> Plan``: what it wants now.

A plan is the whole of what a strategy wants: a knob that it wished in its last plan and does
not wish in this one is put back as it was found (or as hooks want it), so that a strategy that
has nothing to do, is switched off or disabled returns an empty plan and need not tidy up.
``memory`` is what its last plan left in ``Plan.memory``, ``None`` at first and after a
restart: a strategy finds its way from what the cgroups have. It keeps nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from koord_host.forms import Value
from koord_host.layout import Layout
from koord_host.wishes import Owner, Priority, Target, Wish
from koord_model.decision import Decision as Decision
from koord_model.decision import Given as Given
from koord_model.decision import shown as shown
from koord_model.demand import Amounts, Demand
from koord_model.node import NodeView
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, Processor
from koord_model.node_slo import NodeSLO
from koord_model.pod import Container, runs_in_vm
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class, qos_class_or_default
from koord_model.resctrl import ResctrlWish

from koordlet.collecting.contract import Latest, NothingYet
from koordlet.deciding.sources import Cgroups as Cgroups
from koordlet.deciding.sources import History as History
from koordlet.deciding.sources import NoCgroups as NoCgroups
from koordlet.deciding.sources import NoHistory as NoHistory
from koordlet.deciding.sources import Stats as Stats
from koordlet.states.inventory import PodRecord
from koordlet.states.share_pools import SetAside


class Mode(StrEnum):
    """What is done with a strategy's plans."""

    OFF = "off"  # it is not asked
    SHADOW = "shadow"  # it is asked and its decisions are shown; nothing is done
    ON = "on"


# ---- what a strategy is given


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
        """What its specification asks for; ``None`` of pods that no list has told of."""
        return self.record.demand

    @property
    def requests(self) -> Amounts:
        """What it requests: CPU and batch-cpu in millicores, memory in bytes."""
        return self.record.demand.requests if self.record.demand else {}

    @property
    def limits(self) -> Amounts:
        """Its limits, in the same units."""
        return self.record.demand.limits if self.record.demand else {}

    @cached_property
    def in_vm(self) -> bool:
        """Whether its processes are in a virtual machine: host knobs are no use then."""
        return runs_in_vm(self.record.pod)


@dataclass(frozen=True, slots=True)
class Signal:
    """A number that one strategy found out for others, and for ``/metrics``.

    ``name`` and ``pod`` ("namespace/name", "" for the node) tell it from others of its
    strategy.
    """

    name: str
    value: float
    pod: str = ""


@dataclass(frozen=True)
class View:
    """The node at one moment, frozen: all that a strategy may go by.

    ``at`` is the wall clock, seconds since the epoch, and may jump; ``steady`` is
    CLOCK_MONOTONIC in seconds: intervals are reckoned by it. ``pods_known`` is whether
    ``pods`` are all that run, ``pods_fresh`` whether that was heard lately: by an old list
    nobody is evicted. ``allocatable`` is what the Node has for pods, by resource (CPU
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
    latest: Latest = field(default_factory=NothingYet)
    history: History = field(default_factory=NoHistory)
    cgroups: Cgroups = field(default_factory=NoCgroups)
    allocatable: Amounts = field(default_factory=dict)
    reserved_cpu: float = 0.0
    set_aside: SetAside = field(default_factory=SetAside)
    signals: Mapping[str, tuple[Signal, ...]] = field(default_factory=dict)
    evicting: frozenset[str] = frozenset()

    @property
    def slo(self) -> NodeSLO:
        """What the cluster asks of this node."""
        return self.node.slo

    @cached_property
    def cpus(self) -> tuple[Processor, ...]:
        """The CPUs that run; empty until they are known."""
        info = self.latest.fact(NodeCPUInfo)
        return info.online if info is not None else ()

    @cached_property
    def memory_bytes(self) -> int | None:
        """All of the node's memory; ``None`` until it is known."""
        info = self.latest.fact(NodeMemoryInfo)
        return info.total if info is not None else None

    @property
    def be_group(self) -> str:
        """The cgroup above all best-effort pods."""
        return self.layout.kube_qos_group(KubeQoS.BEST_EFFORT)

    def signal(self, strategy: str, name: str, pod: str = "") -> float | None:
        """A signal of the last round; ``None`` where there is none."""
        for one in self.signals.get(strategy, ()):
            if one.name == name and one.pod == pod:
                return one.value
        return None


# ---- what it wants


class Victim(NamedTuple):
    """A pod that may be evicted, and how much of the claim's resource that frees."""

    pod: PodView
    releases: float


@dataclass(frozen=True, slots=True)
class Claim:
    """So much of a resource is to be freed, by evicting victims: the first goes first.

    ``resource`` is "cpu" (cores), "memory" (bytes), a resource's name where requests are what is
    freed, or another word with a unit of its own.
    ``opt_in`` is whether only pods labelled ``koordinator.sh/eviction-enabled=true`` may go.
    ``rule`` is the feature gate's name ("MemoryEvict"), which is what a pod's annotation
    ``koordinator.sh/eviction-policy`` lists. ``forced`` is whether it may
    not wait: a hard threshold. ``notice_seconds`` is how long before a pod is to be told.
    """

    rule: str
    resource: str
    need: float
    victims: tuple[Victim, ...]
    decision: Decision
    opt_in: bool = True
    forced: bool = False
    notice_seconds: float = 0.0


class Notice(NamedTuple):
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

    wish: ResctrlWish
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a strategy wants now.

    ``wishes`` are states of knobs; ``deeds`` are writes that are done once and leave no
    state (``memory.reclaim``).
    """

    wishes: tuple[Wish, ...] = ()
    decisions: tuple[Decision, ...] = ()
    claims: tuple[Claim, ...] = ()
    deeds: tuple[Wish, ...] = ()
    caches: tuple[CacheClass, ...] = ()
    signals: tuple[Signal, ...] = ()
    notices: tuple[Notice, ...] = ()
    memory: Any = None


NOTHING = Plan()
"""What a strategy wants that has nothing to do, and nothing to remember."""


def wish(group: str, knob: str, value: Value, decision: Decision, pod: str = "") -> Wish:
    """A wish that says why."""
    return Wish(Target(group, knob), value, str(decision), pod or decision.pod)


def owner(strategy: str) -> Owner:
    """Whose a strategy's wishes are."""
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
    plan: Callable[[View, Any, Any], Plan]
