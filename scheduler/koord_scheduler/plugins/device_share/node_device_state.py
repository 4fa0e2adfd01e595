"""Devices of a node, and their free amounts beside its pods. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from koord_model.demand import Amounts
from koord_model.device_allocated import PodDevices, ResourceAmounts
from koord_model.keys import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_GPU_ISOLATION_PROVIDER,
    LABEL_GPU_MODEL,
    LABEL_GPU_PARTITION_POLICY,
    LABEL_GPU_VENDOR,
)

from koord_scheduler.plugins.device_share.device_object import (
    GPU_TYPE,
    HONOR,
    NodeDevice,
    NodeDevices,
)
from koord_scheduler.plugins.device_share.gpu_partitions import GPUPartition, partitions_of_model
from koord_scheduler.plugins.device_share.gpu_templates import NO_TEMPLATES, ModelTemplates

_PARTS = (GPU_CORE, GPU_MEMORY_RATIO)


class GPULabels(NamedTuple):
    """GPUs in a Node's labels."""

    vendor: str = ""
    model: str = ""
    isolation: str = ""
    honors: bool = False


NO_LABELS = GPULabels()


def gpu_labels(labels: Mapping[str, str]) -> GPULabels:
    """Read the labels of a Node."""
    return GPULabels(
        labels.get(LABEL_GPU_VENDOR, ""),
        labels.get(LABEL_GPU_MODEL, ""),
        labels.get(LABEL_GPU_ISOLATION_PROVIDER, ""),
        labels.get(LABEL_GPU_PARTITION_POLICY) == HONOR,
    )


class UsedDevice(NamedTuple):
    """Pods' usage of one device, with the addresses of their virtual functions."""

    type: str
    minor: int
    resources: ResourceAmounts
    functions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeDeviceState:
    """All that decides which devices of a node a pod can get; nodes in which it is equal are alike.

    ``used`` is in order of type and minor, without what nobody has; ``templates`` are those of the
    model of its GPUs.
    """

    has: NodeDevices = field(default_factory=NodeDevices)
    labels: GPULabels = NO_LABELS
    used: tuple[UsedDevice, ...] = ()
    templates: ModelTemplates = NO_TEMPLATES

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.has, self.labels, self.used, self.templates))

    @cached_property
    def used_by_device(self) -> Mapping[tuple[str, int], UsedDevice]:
        """``used``, by type and minor."""
        return {(one.type, one.minor): one for one in self.used}

    @cached_property
    def devices(self) -> Mapping[str, Mapping[int, FreeDevice]]:
        """By type and minor, what is free of devices."""
        return {
            kind: {minor: self._free(device) for minor, device in devices.items()}
            for kind, devices in self.has.by_type.items()
        }

    @cached_property
    def free_cards(self) -> tuple[int, ...]:
        """Of each GPU, in the order of their numbers, the thousandths that are free."""
        gpus = self.devices.get(GPU_TYPE, {}).values()
        return tuple(10 * min(map(one.free_part, _PARTS)) for one in gpus)

    @property
    def partitions(self) -> tuple[tuple[GPUPartition, ...] | None, bool]:
        """Sets of GPUs that work together, by the Device or by the model, and if they are honored.

        The model is the label of the Node.
        """
        if self.has.partitions is not None:
            return self.has.partitions, self.has.honors
        return partitions_of_model(self.labels.vendor, self.labels.model), self.labels.honors

    def _free(self, node_device: NodeDevice) -> FreeDevice:
        used = self.used_by_device.get((node_device.type, node_device.minor))
        total = dict(node_device.resources)
        if used is None:
            return FreeDevice(node_device, total, total)
        taken = dict(used.resources)
        free = {name: max(0, amount - taken.get(name, 0)) for name, amount in total.items()}
        return FreeDevice(node_device, total, free, used.functions)


class FreeDevice(NamedTuple):
    """A device with what it has in ``total``, and what of it nobody has."""

    device: NodeDevice
    total: Amounts
    free: Amounts
    taken_functions: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """True if it is healthy, and nobody has any of it."""
        return bool(self.total) and self.total == self.free

    def free_part(self, name: str) -> int:
        """Return the free part of a resource of which a whole device has 100."""
        return min(100, self.free.get(name, 0)) if name in self.total else 100 * bool(self.total)

    def has_room(self, amounts: Amounts) -> bool:
        """True if so much is free of it; a resource that it does not have at all is not free.

        Memory has to be free in bytes and in per cent, whichever was requested: pods that request
        the one and pods that request the other share cards.
        """
        return bool(self.total) and all(
            self.free.get(name, 0) >= amount for name, amount in self.with_memory(amounts).items()
        )

    def with_memory(self, amounts: Amounts) -> Amounts:
        """The same, with the part of a GPU's memory in bytes and in per cent, rounded down."""
        total = self.total.get(GPU_MEMORY, 0)
        if not total or (GPU_MEMORY in amounts) == (GPU_MEMORY_RATIO in amounts):
            return amounts
        if GPU_MEMORY in amounts:
            return {**amounts, GPU_MEMORY_RATIO: amounts[GPU_MEMORY] * 100 // total}
        return {**amounts, GPU_MEMORY: amounts[GPU_MEMORY_RATIO] * total // 100}


def used_devices(pods: Iterable[PodDevices]) -> tuple[UsedDevice, ...]:
    """Return the pods' usage together."""
    resources: dict[tuple[str, int], Counter[str]] = {}
    functions: dict[tuple[str, int], set[str]] = {}
    for devices in pods:
        for device in devices:
            at = device.type, device.minor
            resources.setdefault(at, Counter()).update(dict(device.resources))
            functions.setdefault(at, set()).update(vf.bus for vf in device.functions)
    return tuple(
        UsedDevice(*at, tuple(sorted(resources[at].items())), frozenset(functions[at]))
        for at in sorted(resources)
        if resources[at] or functions[at]
    )
