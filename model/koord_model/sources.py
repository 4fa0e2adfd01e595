"""Precedence of sources: a row for each property, by which the code decides. No IO.

Several sources describe the same things at different times. For each property a row says whose
statement counts (the first of ``believed`` that makes one), how long, and what it means if a
source says nothing. That a statement is the latest is a reason only where a row says so.
docs/sources.md shows the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Source(StrEnum):
    """Source of a statement; the values are for people."""

    SETTING = "koordlet's setting"
    CGROUPS = "cgroups"
    HOOKS = "hook calls and NRI"
    LIST = "list of pods"
    RECORD = "koordlet's record"
    KUBELET_CONFIG = "kubelet's flags and configuration"
    KUBELET_STATE = "kubelet's state file"
    KUBELET = "kubelet's /configz"
    KERNEL = "/proc and /sys"
    NODE_METRIC = "NodeMetric"
    API = "API server"
    RULES_FILE = "rules file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Property:
    """A row: who is believed, the best first, until when, and what absence means."""

    name: str
    believed: tuple[Source, ...]
    until: str
    absence: str


@dataclass(frozen=True, slots=True)
class Belief(Generic[T]):
    """A believed value, and the source of its statement."""

    value: T
    source: Source


def believe(row: Property, statements: Mapping[Source, T]) -> Belief[T] | None:
    """The statement that counts; ``None`` if nobody who is believed makes one.

    A source without an opinion is left out of ``statements``: an empty value is a statement.
    """
    source = next((source for source in row.believed if source in statements), None)
    return None if source is None else Belief(statements[source], source)


LABELS = Property(
    "labels and annotations of a pod",
    (Source.LIST, Source.HOOKS, Source.RECORD),
    "the next list",
    "a label that the list lacks is not set",
)
CGROUP_PARENT = Property(
    "cgroup of a pod",
    (Source.HOOKS, Source.RECORD, Source.LIST),
    "the pod ends",
    "computed from class, UID, cgroup driver and cgroup root, as the kubelet does",
)
RUNTIME_HANDLER = Property(
    "runtime handler of a pod",
    (Source.HOOKS, Source.RECORD),
    "the pod ends",
    "without a runtime class the default one; with one the pod may be a virtual machine, "
    "and its cgroups are left alone",
)
RUNTIME_CLASS = Property(
    "runtime class of a pod",
    (Source.LIST, Source.RECORD),
    "the pod ends",
    "none",
)
ADDRESS = Property(
    "address of a pod",
    (Source.LIST, Source.HOOKS, Source.RECORD),
    "the next list",
    "no opinion: the next source counts",
)
KUBE_QOS = Property(
    "Kubernetes class of a pod",
    (Source.HOOKS, Source.RECORD, Source.LIST),
    "the pod ends",
    "a list without it: computed from the specification, as Kubernetes does",
)
DEMAND = Property(
    "requests, priority and owner of a pod",
    (Source.LIST, Source.RECORD),
    "the next list",
    "not known: strategies that need them leave the pod alone",
)
LIMITS_ASKED = Property(
    "limits that the kubelet asks for",
    (Source.HOOKS, Source.LIST, Source.RECORD),
    "a hook call counts until a list that was requested after it; "
    "a list counts if the kubelet has accepted its specification",
    "no opinion: the cgroup keeps what it has",
)
LIMITS_IN_FORCE = Property(
    "limits in force",
    (Source.CGROUPS,),
    "the next read; what the kubelet wrote last is the base of every strategy",
    "the container has ended",
)
PRESENCE = Property(
    "presence of a pod or container",
    (Source.CGROUPS, Source.LIST, Source.HOOKS, Source.RECORD),
    "its cgroup has no processes; an empty cgroup counts for 60 s after the last source that "
    "named the pod",
    "a cgroup that is gone, and that the list lacks: it has ended",
)
COMPLETE = Property(
    "completeness of the list of pods",
    (Source.CGROUPS, Source.LIST),
    "a cgroup with processes that no source names makes a list of static pods alone "
    "incomplete, and any other list for 60 s",
    "not complete: exclusive CPUs are not known, and strategies keep what they have",
)
KUBELET_CPUS = Property(
    "exclusive CPUs of the kubelet",
    (Source.KUBELET_STATE, Source.RECORD),
    "the next good read",
    "a file that was never there, or never a state: none; one that could never be read: not "
    "known, and no CPUs are shared out",
)
RESERVED_CPUS = Property(
    "CPUs that the Node keeps out of all pools",
    (Source.API, Source.RECORD),
    "the API server says otherwise",
    "a Node that the API server does not have: none; not known until it has said so, and no CPUs "
    "are shared out",
)
SCHEDULED_CPUS = Property(
    "exclusive CPUs of LSE and LSR pods",
    (Source.LIST, Source.HOOKS, Source.RECORD),
    "the pod ends",
    "no CPUs of its own",
)
ONLINE_CPUS = Property(
    "online CPUs and NUMA nodes",
    (Source.KERNEL,),
    "the next good read",
    "what cannot be read stays as it was",
)
CGROUP_DRIVER = Property(
    "cgroup driver",
    (Source.SETTING, Source.CGROUPS, Source.KUBELET_CONFIG, Source.DEFAULT),
    "checked every 10 s; koordlet restarts if another one is found",
    "systemd is assumed until the kubelet's groups exist",
)
CGROUP_ROOT = Property(
    "cgroup root of the kubelet",
    (Source.CGROUPS, Source.KUBELET_CONFIG, Source.DEFAULT),
    "checked every 10 s; koordlet restarts if another one is found",
    "the root of the hierarchy",
)
NODE_OBJECTS = Property(
    "Node, NodeSLO, NodeMetric's policy",
    (Source.API, Source.RECORD, Source.RULES_FILE, Source.DEFAULT),
    "the API server says otherwise",
    "an object that was deleted: the rules file, else defaults; a field that cannot be used "
    "has its default",
)
KUBELET_POLICIES = Property(
    "policies of the kubelet",
    (Source.KUBELET,),
    "the next answer",
    "NodeResourceTopology has none",
)
NODE_USAGE = Property(
    "usage of the node and its system, in the manager",
    (Source.NODE_METRIC,),
    "degradeTimeMinutes after the report",
    "no sample is no offer: the last whole report counts until then, or nothing is offered",
)

PROPERTIES = (
    LABELS,
    CGROUP_PARENT,
    RUNTIME_HANDLER,
    RUNTIME_CLASS,
    ADDRESS,
    KUBE_QOS,
    DEMAND,
    LIMITS_ASKED,
    LIMITS_IN_FORCE,
    PRESENCE,
    COMPLETE,
    SCHEDULED_CPUS,
    KUBELET_CPUS,
    RESERVED_CPUS,
    ONLINE_CPUS,
    CGROUP_DRIVER,
    CGROUP_ROOT,
    NODE_OBJECTS,
    KUBELET_POLICIES,
    NODE_USAGE,
)
"""The table, in the order of docs/sources.md."""
