"""What the API says of a cluster at one moment, read naively. No part of ours reads it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

Object = dict[str, Any]
Amounts = Counter[str]
_UNITS = {"m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_QOS = "koordinator.sh/qosClass"
QUOTA = "quota.scheduling.koordinator.sh/name"
PARENT = "quota.scheduling.koordinator.sh/parent"
GANG = "pod-group.scheduling.sigs.k8s.io"
_RESERVED_BY = "scheduling.koordinator.sh/reservation-allocated"


@dataclass(frozen=True)
class ClusterState:
    """Lists of objects' JSON."""

    pods: list[Object] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    devices: list[Object] = field(default_factory=list)
    topologies: list[Object] = field(default_factory=list)
    quotas: list[Object] = field(default_factory=list)
    groups: list[Object] = field(default_factory=list)
    reservations: list[Object] = field(default_factory=list)

    @cached_property
    def running(self) -> list[Object]:
        """The pods that have a node and have not ended."""
        return [one for one in self.pods if node_of(one) and not has_ended(one)]

    @cached_property
    def on(self) -> dict[str, list[Object]]:
        """Those of each node."""
        return _by(self.running, node_of)

    @cached_property
    def available(self) -> list[Object]:
        """The reservations that hold room."""
        return [one for one in self.reservations if phase(one) == "Available"]

    @cached_property
    def held_on(self) -> dict[str, list[Object]]:
        """Those of each node."""
        return _by(self.available, reserved_node)

    @cached_property
    def owners(self) -> dict[str, list[Object]]:
        """The running pods that say of a reservation, by its uid, that they use it."""
        return _by(self.running, lambda pod: annotation(pod, _RESERVED_BY).get("uid", ""))


def _by(objects: Iterable[Object], key: Any) -> dict[str, list[Object]]:
    found = defaultdict(list)
    for one in objects:
        found[key(one)].append(one)
    return found


def amount(text: str | float) -> Fraction:
    """A quantity of Kubernetes as a number."""
    text = str(text)
    for unit in sorted(_UNITS, key=len, reverse=True):
        if text.endswith(unit):
            return Fraction(text.removesuffix(unit)) * _UNITS[unit]
    return Fraction(text)


def amounts(given: dict[str, Any] | None) -> Amounts:
    """A resource list as numbers."""
    return Counter({key: amount(value) for key, value in (given or {}).items()})  # type: ignore[misc]


def total(several: Iterable[Amounts]) -> Amounts:
    """The sum, without what is 0 or less."""
    return sum(several, Counter())


def excess(used: Amounts, most: Amounts, names: Iterable[str]) -> Iterator[str]:
    """A line for each of these resources of which more is used than there may be."""
    for key in sorted(key for key in names if used[key] > most[key]):
        yield f"{float(used[key]):g} of {float(most[key]):g} {key}"


def requests(pod: Object) -> Amounts:
    """What the containers of a pod, or of the template of one, ask for."""
    containers = pod["spec"]["containers"]
    return total(amounts(one.get("resources", {}).get("requests")) for one in containers)


def reserved(reservation: Object) -> Amounts:
    return requests(reservation["spec"]["template"])


def name(one: Object) -> str:
    return str(one["metadata"]["name"])


def uid(one: Object) -> str:
    return str(one["metadata"]["uid"])


def labels(one: Object) -> dict[str, str]:
    return dict(one["metadata"].get("labels") or {})


def annotation(one: Object, key: str) -> dict[str, Any]:
    """An annotation that is JSON; {} where there is none."""
    return dict(json.loads((one["metadata"].get("annotations") or {}).get(key, "{}")))


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")


def reserved_node(reservation: Object) -> str:
    return str(reservation.get("status", {}).get("nodeName") or "")


def phase(one: Object) -> str:
    return str(one.get("status", {}).get("phase") or "")


def has_ended(pod: Object) -> bool:
    return phase(pod) in ("Failed", "Succeeded")


def wants_cpus_alone(one: Object) -> bool:
    """A pod, or the template of one, whose CPUs nobody else may have."""
    meta = one.get("metadata") or {}
    return (meta.get("labels") or {}).get(_QOS) in ("LSR", "LSE")
