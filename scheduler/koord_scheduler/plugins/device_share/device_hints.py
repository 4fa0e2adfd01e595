"""Pods' annotations about the devices to choose. No IO.

``scheduling.koordinator.sh/device-allocate-hint``, ``device-joint-allocate`` and
``gpu-partition-spec``, as in Koordinator's ``apis/extension/device_share.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec
from koord_model import label_selector
from koord_model.excerpt import excerpt
from koord_model.fields import milli_quantity
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATE_HINT,
    ANNOTATION_DEVICE_JOINT_ALLOCATE,
    ANNOTATION_GPU_PARTITION_SPEC,
)
from koord_model.label_selector import LabelSelector

Annotations = Mapping[str, str]
T = TypeVar("T")


class AllocateStrategy(StrEnum):
    """Number of devices that an amount means: one, unless it is more than one has."""

    UNSET = ""
    ALL = "ApplyForAll"
    COUNT = "RequestsAsCount"


class TopologyScopeName(StrEnum):
    """Required distance of GPUs."""

    UNSET = ""
    NODE = "Node"
    NUMA_NODE = "NUMANode"
    PCIE = "PCIe"
    DEVICE = "Device"


class TopologyLevel(IntEnum):
    """The same in order: what is further down is nearer."""

    ANY = 0
    NODE = 1
    NUMA_NODE = 2
    PCIE = 3
    DEVICE = 4


_LEVELS = dict(zip(TopologyScopeName, TopologyLevel, strict=True))


class ExclusivePolicy(StrEnum):
    """Exclusive use by a pod."""

    UNSET = ""
    DEVICE = "DeviceLevel"
    PCIE = "PCIeLevel"


class DeviceHint(NamedTuple):
    """Selection of devices of one type: by labels with ``selector``, if it is set.

    With ``functions`` the pod gets a virtual function that it means of each device. GPUs have to
    be within one ``scope``. ``keeps_device``: where devices are counted, they are for this pod
    alone; ``keeps_pcie``: only devices on whose PCIe switch no other pod has any.
    """

    selector: LabelSelector | None = None
    functions: LabelSelector | None = None
    strategy: AllocateStrategy = AllocateStrategy.UNSET
    scope: TopologyLevel = TopologyLevel.ANY
    keeps_device: bool = False
    keeps_pcie: bool = False


NO_HINT = DeviceHint()


class JointAllocation(NamedTuple):
    """Types of devices that are to be near each other: the first one decides where."""

    types: tuple[str, ...]
    is_same_pcie: bool = False


class GPUPartitionSpec(NamedTuple):
    """A pod has to get a partition; ``bandwidth`` is in thousandths, as in ``GPUPartition``."""

    is_restricted: bool = False
    bandwidth: int | None = None


class _Hint(msgspec.Struct, frozen=True, rename="camel"):
    selector: dict[str, Any] | None = None
    vf_selector: dict[str, Any] | None = None
    allocate_strategy: AllocateStrategy = AllocateStrategy.UNSET
    required_topology_scope: TopologyScopeName = TopologyScopeName.UNSET
    exclusive_policy: ExclusivePolicy = ExclusivePolicy.UNSET


class _JointScope(StrEnum):
    UNSET = ""
    SAME_PCIE = "SamePCIe"


class _Joint(msgspec.Struct, frozen=True, rename="camel"):
    device_types: list[str] | None = None
    required_scope: _JointScope = _JointScope.UNSET


class _PartitionPolicy(StrEnum):
    UNSET = ""
    RESTRICTED = "Restricted"
    BEST_EFFORT = "BestEffort"


class _PartitionSpec(msgspec.Struct, frozen=True, rename="camel"):
    allocate_policy: _PartitionPolicy = _PartitionPolicy.UNSET
    ring_bus_bandwidth: str | int | float | None = None


_HINTS = msgspec.json.Decoder(dict[str, _Hint | None] | None)
_JOINT = msgspec.json.Decoder(_Joint | None)
_SPEC = msgspec.json.Decoder(_PartitionSpec | None)


def device_hints(annotations: Annotations) -> dict[str, DeviceHint]:
    """Hints by type of device.

    Raises:
        ValueError: they cannot be used; one line says how.
    """
    name = "DeviceAllocateHint"
    given = _decoded(_HINTS, annotations, ANNOTATION_DEVICE_ALLOCATE_HINT, name) or {}
    try:
        return {kind: _hint(kind, one) for kind, one in given.items() if one is not None}
    except ValueError as error:
        raise ValueError(f"invalid {name} annotation, err: {error}") from None


def _hint(kind: str, given: _Hint) -> DeviceHint:
    return DeviceHint(
        _selector(given.selector, f"{kind}.selector"),
        _selector(given.vf_selector, f"{kind}.vfSelector"),
        given.allocate_strategy,
        _LEVELS[given.required_topology_scope],
        given.exclusive_policy is ExclusivePolicy.DEVICE,
        given.exclusive_policy is ExclusivePolicy.PCIE,
    )


def _selector(given: dict[str, Any] | None, where: str) -> LabelSelector | None:
    return None if given is None else label_selector.parse(given, where)


def joint_allocation(annotations: Annotations) -> JointAllocation | None:
    """Return the types that are to be near each other; ``None``: nothing is said.

    Raises:
        ValueError: it cannot be used; one line says how.
    """
    key, name = ANNOTATION_DEVICE_JOINT_ALLOCATE, "DeviceJointAllocate"
    given = _decoded(_JOINT, annotations, key, name)
    if given is None:
        return None
    types = tuple(dict.fromkeys(given.device_types or ()))
    return JointAllocation(types, given.required_scope is _JointScope.SAME_PCIE)


def partition_spec(annotations: Annotations) -> GPUPartitionSpec | None:
    """Return the demands on partitions; ``None``: there are none.

    Raises:
        ValueError: it cannot be used; one line says how.
    """
    key, name = ANNOTATION_GPU_PARTITION_SPEC, "GPUPartitionSpec"
    given = _decoded(_SPEC, annotations, key, name)
    if given is None:
        return None
    bandwidth = given.ring_bus_bandwidth
    try:
        amount = None if bandwidth is None else milli_quantity(bandwidth)
    except ValueError as error:
        raise ValueError(f"invalid {name} annotation, err: {error}") from None
    return GPUPartitionSpec(given.allocate_policy is _PartitionPolicy.RESTRICTED, amount)


def _decoded(
    decoder: msgspec.json.Decoder[T], annotations: Annotations, key: str, name: str
) -> T | None:
    text = annotations.get(key)
    if text is None:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        said = f"{excerpt(text)}: {error}"
        raise ValueError(f"invalid {name} annotation, err: {said}") from None
