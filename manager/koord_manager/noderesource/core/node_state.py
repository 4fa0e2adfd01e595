"""The calculation's view of a node: from its NodeMetric, its Node and its NodeResourceTopology.

Amounts are pairs: CPU in millicores, memory in bytes. No IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model import cpuset, katalyst
from koord_model.annotations import decode
from koord_model.fields import Fields, cpu_list, quantity, text
from koord_model.keys import (
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_RAW_ALLOCATABLE,
    ANNOTATION_THIRD_PARTY,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from koord_model.node_document import normalization_ratio
from koord_model.priority import PriorityClass
from koord_model.quantity import milli, whole

from koord_manager.noderesource.core.documents import Instant

MOST_ZONES = 64
"""Of one node: there is room for as many of all nodes, so that one could fill the memory."""

_SHORT = 16
"""Characters of an amount below ``MOST``."""

MOST = 1 << 53
"""Larger amounts are typing errors; sums and products of smaller ones fit 64 bits."""


class CpuMemory(NamedTuple):
    """Millicores and bytes."""

    cpu: int = 0
    memory: int = 0


NOTHING = CpuMemory()


class MeasuredUsage(NamedTuple):
    """As ``CpuMemory``; ``None`` means not measured."""

    cpu: int | None = None
    memory: int | None = None

    def known(self) -> CpuMemory:
        """The amounts; those that were not measured count as nothing."""
        return CpuMemory(self.cpu or 0, self.memory or 0)


UNKNOWN = MeasuredUsage()


class _Amounts(msgspec.Struct, gc=False):
    cpu: str | int | float | None = None
    memory: str | int | float | None = None


class _Map(msgspec.Struct, gc=False):
    resources: _Amounts | None = None


class _Numa(msgspec.Struct):
    numa: int = msgspec.field(default=0, name="numaNodeID")
    system: _Map | None = msgspec.field(default=None, name="systemUsage")


class _Node(msgspec.Struct):
    node: _Map | None = msgspec.field(default=None, name="nodeUsage")
    system: _Map | None = msgspec.field(default=None, name="systemUsage")
    numa: list[_Numa] | None = msgspec.field(default=None, name="numaUsages")


class _Pod(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    usage: _Map | None = msgspec.field(default=None, name="podUsage")
    priority: str = ""


class _Application(msgspec.Struct):
    usage: _Map | None = None
    priority: str = ""
    qos: str = ""


class _Reclaimable(msgspec.Struct):
    resource: _Map | None = None


class _Status(msgspec.Struct):
    updated: Instant | None = msgspec.field(default=None, name="updateTime")
    node: _Node | None = msgspec.field(default=None, name="nodeMetric")
    pods: list[_Pod] | None = msgspec.field(default=None, name="podsMetric")
    applications: list[_Application] | None = msgspec.field(
        default=None, name="hostApplicationMetric"
    )
    reclaimable: _Reclaimable | None = msgspec.field(default=None, name="prodReclaimableMetric")


_STATUS: msgspec.json.Decoder[_Status | None] = msgspec.json.Decoder(_Status | None)


class PodUsageSummary(msgspec.Struct, frozen=True, gc=False):
    """A pod's usage, and its class as the node saw it."""

    usage: MeasuredUsage
    priority: str


class HostApplicationUsage(NamedTuple):
    """Usage of an application beside Kubernetes."""

    usage: CpuMemory
    priority: PriorityClass


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The used part of a NodeMetric's status; ``updated`` is in seconds since the epoch.

    ``pods`` are by "namespace/name", ``numa`` is the system's usage by NUMA node, and
    ``reclaimable`` the prediction for prod pods.
    """

    updated: float | None = None
    node: MeasuredUsage = UNKNOWN
    system: MeasuredUsage = UNKNOWN
    numa: Mapping[int, MeasuredUsage] = field(default_factory=dict)
    pods: Mapping[str, PodUsageSummary] = field(default_factory=dict)
    applications: Sequence[HostApplicationUsage] = ()
    reclaimable: MeasuredUsage = UNKNOWN

    @property
    def is_whole(self) -> bool:
        """True if usage beside pods is known: a koordlet that has just started may not know it."""
        return None not in self.system


def metric_summary(status: bytes) -> MetricSummary:
    """The summary of a NodeMetric status' JSON, the same over the direct link and in the object.

    Raises:
        ValueError: it is not a NodeMetric status.
    """
    given = decode_view(_STATUS, status, "a valid NodeMetric status") or _Status()
    node = given.node or _Node()
    return MetricSummary(
        updated=given.updated.timestamp() if given.updated else None,
        node=_usage(node.node),
        system=_usage(node.system),
        numa={zone.numa: _usage(zone.system) for zone in node.numa or ()},
        pods={
            f"{pod.namespace}/{pod.name}": PodUsageSummary(_usage(pod.usage), pod.priority)
            for pod in given.pods or ()
        },
        applications=tuple(
            HostApplicationUsage(_usage(application.usage).known(), _of_application(application))
            for application in given.applications or ()
        ),
        reclaimable=_usage(given.reclaimable.resource if given.reclaimable else None),
    )


def _of_application(application: _Application) -> PriorityClass:
    """One that names no class counts as what its quality class implies, else as prod.

    Koordinator counts it nowhere: neither as system, nor as an application.
    """
    try:
        priority_class = PriorityClass(application.priority)
    except ValueError:
        priority_class = PriorityClass.NONE
    return priority_class or (
        PriorityClass.BATCH if application.qos == "BE" else PriorityClass.PROD
    )


def _usage(given: _Map | None) -> MeasuredUsage:
    amounts = given.resources if given else None
    if amounts is None:
        return UNKNOWN
    cpu, memory = amounts.cpu, amounts.memory
    # In line, and usual forms first (500m and 1073741824): a report has a hundred of them.
    if (
        isinstance(cpu, str)
        and cpu[-1:] == "m"
        and (digits := cpu[:-1]).isdigit()
        and len(cpu) < _SHORT
        and cpu.isascii()
    ):
        millicores: int | None = int(digits)
    else:
        millicores = _amount(cpu, milli)
    if isinstance(memory, str) and memory.isdigit() and len(memory) < _SHORT and memory.isascii():
        return MeasuredUsage(millicores, int(memory))
    return MeasuredUsage(millicores, _amount(memory, whole))


def _amount(
    given: str | int | float | None, read: Callable[[str | int | float], int]
) -> int | None:
    """An invalid quantity counts as not measured."""
    if given is None:
        return None
    try:
        return bounded(read(given))
    except ValueError:
        return None


def bounded(amount: int) -> int:
    """The amount within 0 and ``MOST``."""
    return 0 if amount < 0 else amount if amount < MOST else MOST


@dataclass(frozen=True, slots=True)
class NodeState:
    """The used part of a Node.

    ``reserved`` is the most of what the kubelet and the annotation keep back, for the system.
    ``ratio`` is how much faster a CPU is than the reference, from 1. ``third_batch`` and
    ``third_mid`` is what other schedulers gave away. ``reclaimed`` is whether Katalyst's agent
    offers the same under its names. ``batch`` and ``mid`` are offered now.
    ``allocatable`` is as the kubelet has it.
    """

    capacity: CpuMemory = NOTHING
    reserved: CpuMemory = NOTHING
    ratio: float = 1.0
    third_batch: CpuMemory = NOTHING
    third_mid: CpuMemory = NOTHING
    reclaimed: bool = False
    batch: MeasuredUsage = UNKNOWN
    mid: MeasuredUsage = UNKNOWN
    ignored: tuple[str, ...] = ()
    allocatable: CpuMemory = NOTHING


_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def read_node_state(node: Mapping[str, object]) -> NodeState:
    """The state in a decoded Node; ``ignored`` are a line for each value that cannot be used."""
    ignored: list[str] = []
    fields = Fields(node, "Node", ignored)
    annotations, status = fields.of("metadata").of("annotations"), fields.of("status")
    capacity = pair(status.of("capacity"))
    ratio, _ = normalization_ratio(node)  # what is wrong with it, its own calculation says
    allocations = _annotation(annotations, ANNOTATION_THIRD_PARTY)
    raw = _raw_allocatable(annotations, status, capacity)
    return NodeState(
        capacity=capacity,
        reserved=_reserved(annotations, raw, capacity),
        allocatable=raw,
        ratio=max(1.0, ratio),
        third_batch=_third_party(allocations, PriorityClass.BATCH, BATCH_CPU, BATCH_MEMORY),
        third_mid=_third_party(allocations, PriorityClass.MID, MID_CPU, MID_MEMORY),
        reclaimed=any(_whole(status.of("allocatable"), name) for name in katalyst.RESOURCES),
        batch=_offered(status, BATCH_CPU, BATCH_MEMORY),
        mid=_offered(status, MID_CPU, MID_MEMORY),
        ignored=tuple(ignored),
    )


def _raw_allocatable(annotations: Fields, status: Fields, capacity: CpuMemory) -> CpuMemory:
    """The kubelet's: an amplified allocatable hides it, the raw one is in an annotation."""
    raw = _annotation(annotations, ANNOTATION_RAW_ALLOCATABLE)
    allocatable = status.of("allocatable")
    return CpuMemory(
        *(
            pair(raw if raw.has(name) else allocatable)[place]
            if raw.has(name) or allocatable.has(name)
            else capacity[place]
            for place, name in enumerate((CPU, MEMORY))
        )
    )


def _reserved(annotations: Fields, free: CpuMemory, capacity: CpuMemory) -> CpuMemory:
    """The larger of the kubelet's reservation, which leaves ``free``, and the annotation's."""
    named = _annotation(annotations, ANNOTATION_NODE_RESERVATION)
    amounts = pair(named.of("resources"))
    cpus = named.take("reservedCPUs", "", cpu_list, 'a CPU list like "0-3"', "none reserved")
    cpu = len(cpuset.parse(cpus)) * 1000 if cpus else amounts.cpu
    return CpuMemory(
        max(capacity.cpu - free[0], cpu, 0), max(capacity.memory - free[1], amounts.memory, 0)
    )


def _third_party(allocations: Fields, priority: PriorityClass, cpu: str, memory: str) -> CpuMemory:
    found = NOTHING
    for allocation in allocations.objects("allocations"):
        if allocation.text("priority") == priority:
            resources = allocation.of("resources")
            found = CpuMemory(
                bounded(found.cpu + _whole(resources, cpu)),
                bounded(found.memory + _whole(resources, memory)),
            )
    return found


def _offered(status: Fields, cpu: str, memory: str) -> MeasuredUsage:
    offered = status.of("allocatable")
    return MeasuredUsage(
        _whole(offered, cpu) if offered.has(cpu) else None,
        _whole(offered, memory) if offered.has(memory) else None,
    )


def _annotation(annotations: Fields, key: str) -> Fields:
    """The object in a Node's annotation; an empty one where there is none."""
    given = annotations.take(key, None, lambda value: decode(_ANY, text(value)), "JSON", "left out")
    return Fields(given, f"Node annotation {key}:", annotations.ignored)


def pair(resources: Fields) -> CpuMemory:
    """CPU and memory of a resource list; nothing where one is missing."""
    cpu = resources.take(CPU, 0, lambda value: milli(quantity(value)), "a quantity", "taken as 0")
    return CpuMemory(bounded(cpu), _whole(resources, MEMORY))


def _whole(resources: Fields, name: str) -> int:
    given = resources.take(
        name, 0, lambda value: whole(quantity(value)), "a quantity", "taken as 0"
    )
    return bounded(given)


class NumaZone(NamedTuple):
    """A NUMA node of a NodeResourceTopology; ``size`` is its allocatable.

    ``batch`` is what is offered there now.
    """

    name: str
    numa: int
    size: CpuMemory
    batch: MeasuredUsage = UNKNOWN


def zones(topology: Mapping[str, object]) -> tuple[NumaZone, ...]:
    """The zones of a decoded NodeResourceTopology that have CPU or memory.

    None where they are more than any machine has NUMA nodes.
    """
    found = []
    for place, zone in enumerate(Fields(topology, "NodeResourceTopology", []).objects("zones")):
        name = zone.text("name")
        listed = {each.text("name"): each for each in zone.objects("resources")}
        if CPU in listed or MEMORY in listed:
            size = CpuMemory(_in_zone(listed, CPU) or 0, _in_zone(listed, MEMORY) or 0)
            offered = MeasuredUsage(_in_zone(listed, BATCH_CPU), _in_zone(listed, BATCH_MEMORY))
            found.append(NumaZone(name, _numa_node(name, place), size, offered))
    return tuple(found) if len(found) <= MOST_ZONES else ()


def _numa_node(name: str, place: int) -> int:
    """The number in "node-3"; of a zone called otherwise its place among all."""
    number = name.removeprefix("node-")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else place


def _in_zone(listed: Mapping[str, Fields], name: str) -> int | None:
    if name not in listed:
        return None
    accept = milli if name == CPU else whole
    amount = listed[name].take(
        "allocatable", 0, lambda value: accept(quantity(value)), "a quantity", "taken as 0"
    )
    return bounded(amount)


def total(pairs: Iterable[CpuMemory | MeasuredUsage]) -> CpuMemory:
    """The sum."""
    cpu = memory = 0
    for pair in pairs:
        cpu += pair.cpu or 0
        memory += pair.memory or 0
    return CpuMemory(bounded(cpu), bounded(memory))
