"""The scheduler's allocation for a pod: CPUs of its own, or NUMA nodes to stay on.

It says so in the annotation ``scheduling.koordinator.sh/resource-status``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import msgspec

from koord_model import cpuset
from koord_model.annotations import about, decode, read
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, BATCH_CPU, CPU
from koord_model.pod import Pod
from koord_model.quantity import whole


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The scheduler's decision.

    ``cpuset`` is a kernel CPU list, "" where the pod has no CPUs of its own.
    ``numa_nodes`` are the nodes whose shared CPUs it may use; empty where it was
    not placed by NUMA node, or where that placement is not about CPU. ``placed`` are the nodes
    whether it is or not.
    """

    cpuset: str = ""
    numa_nodes: frozenset[int] = frozenset()
    placed: frozenset[int] = frozenset()


_NONE = ResourceStatus()


def resource_status(pod: Pod) -> ResourceStatus:
    """The scheduler's decision about a pod.

    Raises:
        ValueError: the annotation is malformed; one line says how.
    """
    return read(pod, ANNOTATION_RESOURCE_STATUS, parse) or _NONE


def usable_status(pod: Pod, online: str) -> tuple[ResourceStatus, tuple[str, ...]]:
    """The decision without CPUs of its own that are not among ``online``, a kernel CPU list.

    ``online`` "" is not known, and nothing is checked. The second value is a line about
    what was left out.

    Raises:
        ValueError: the annotation is malformed; one line says how.
    """
    status = resource_status(pod)
    strange = cpuset.parse(status.cpuset) - cpuset.parse(online) if online else frozenset()
    if not strange:
        return status, ()
    line = (
        f"{about(pod, ANNOTATION_RESOURCE_STATUS)}: cpuset {status.cpuset} names CPUs "
        f"that this node does not have: {cpuset.render(strange)}; "
        f"expected some of {online} (cpuset left out)"
    )
    return replace(status, cpuset=""), (line,)


_Quantity = str | int | float | None


class _Resources(msgspec.Struct, frozen=True):
    cpu: _Quantity = msgspec.field(default=None, name=CPU)
    batch_cpu: _Quantity = msgspec.field(default=None, name=BATCH_CPU)


class _NumaNode(msgspec.Struct, frozen=True):
    node: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0
    resources: _Resources | None = None


class _Status(msgspec.Struct, frozen=True):
    cpuset: str | None = None
    numa: list[_NumaNode] | None = msgspec.field(default=None, name="numaNodeResources")


_DECODER = msgspec.json.Decoder(_Status | None)


@lru_cache(maxsize=256)
def parse(text: str) -> ResourceStatus:
    """The annotation's text as a decision.

    Raises:
        ValueError: no JSON, JSON of another shape, no CPU list, no quantity.
    """
    status = decode(_DECODER, text) or _Status()
    nodes = status.numa or []
    # Koordinator's rule: CPU on one of the nodes makes all of them count.
    about_cpu = any([_has_cpu(node) for node in nodes])  # noqa: C419 - check every quantity
    placed = frozenset(node.node for node in nodes)
    return ResourceStatus(
        cpuset=cpuset.render(cpuset.parse(status.cpuset or "")),
        numa_nodes=placed if about_cpu else frozenset(),
        placed=placed,
    )


def _has_cpu(node: _NumaNode) -> bool:
    resources = node.resources or _Resources()
    given = (resources.cpu, resources.batch_cpu)
    amounts = [0 if quantity is None else whole(quantity) for quantity in given]
    if min(amounts) < 0:
        raise ValueError(f"NUMA node {node.node}: less than no CPU")
    return max(amounts) > 0
