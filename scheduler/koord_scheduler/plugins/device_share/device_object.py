"""The devices of a node, as the Device of the node's name lists them. No IO.

koordlet writes it (``scheduling.koordinator.sh/v1alpha1``). What cannot be used of it costs one
line, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.device_allocated import ResourceAmounts, VirtualFunction
from koord_model.fields import Fields, quantity
from koord_model.keys import (
    ANNOTATION_GPU_PARTITIONS,
    LABEL_GPU_MODEL,
    LABEL_GPU_PARTITION_POLICY,
    LABEL_GPU_VENDOR,
)
from koord_model.quantity import whole

from koord_scheduler.plugins.device_share.gpu_partitions import GPUPartition, read_partitions

GPU_TYPE, RDMA_TYPE, FPGA_TYPE = "gpu", "rdma", "fpga"
HONOR = "Honor"
_MOST_MINOR = 1 << 20
_MOST_AMOUNT = 1 << 53
_LEFT_OUT = "the device is left out"

DeviceLabels = tuple[tuple[str, str], ...]


class GPUModel(NamedTuple):
    """Of the GPUs of a node, by the labels of its Device."""

    vendor: str = ""
    model: str = ""


NO_MODEL = GPUModel()


class DeviceTopology(NamedTuple):
    """Location of a device; ``numa_node`` is -1 where it is not known."""

    numa_node: int = -1
    pcie: str = ""


class VirtualFunctionGroup(NamedTuple):
    """Virtual functions that are alike."""

    labels: DeviceLabels
    functions: tuple[VirtualFunction, ...]


class NodeDevice(NamedTuple):
    """One device. One that is not healthy has no ``resources``: nobody gets any of it."""

    type: str
    minor: int
    resources: ResourceAmounts = ()
    labels: DeviceLabels = ()
    topology: DeviceTopology | None = None
    groups: tuple[VirtualFunctionGroup, ...] = ()


@dataclass(frozen=True, eq=True)
class NodeDevices:
    """Devices of a node, without the parts that only name them.

    ``partitions`` are the sets of GPUs that can work together; ``None`` where nothing is said of
    them. Pods that use several GPUs have to keep to them where the node ``honors`` them.
    """

    devices: tuple[NodeDevice, ...] = ()
    partitions: tuple[GPUPartition, ...] | None = None
    honors: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: what nodes answer is looked up by it."""
        return hash((self.devices, self.partitions, self.honors))

    @cached_property
    def by_type(self) -> Mapping[str, Mapping[int, NodeDevice]]:
        """The devices by type and minor, in the order of the minors."""
        found: dict[str, dict[int, NodeDevice]] = {}
        for device in sorted(self.devices, key=lambda device: (device.type, device.minor)):
            found.setdefault(device.type, {})[device.minor] = device
        return found


@dataclass(frozen=True)
class DeviceReport:
    """A Device: what there is, ``ids`` by type and minor, and lines on what was ``ignored``.

    ``gpu_model`` is for device plugins: pods get GPUs by the labels of Nodes.
    """

    name: str
    has: NodeDevices = field(default_factory=NodeDevices)
    ids: Mapping[tuple[str, int], str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    gpu_model: GPUModel = NO_MODEL


class DeviceAnnotations(msgspec.Struct, frozen=True, gc=False):
    """Annotations that are read."""

    partitions: str | None = msgspec.field(default=None, name=ANNOTATION_GPU_PARTITIONS)


class DeviceMeta(msgspec.Struct, frozen=True, gc=False):
    """Metadata that name the node."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: DeviceAnnotations | None = None


class DeviceSpec(msgspec.Struct, frozen=True):
    """The devices, not yet read: a bad one is not to cost the others."""

    devices: Any = None


class DeviceObject(msgspec.Struct, frozen=True):
    """The object, as far as it is read."""

    metadata: DeviceMeta = DeviceMeta()
    spec: DeviceSpec = DeviceSpec()


_DECODER = msgspec.json.Decoder(DeviceObject)


def read_device_report(text: bytes) -> DeviceReport:
    """The Device in a JSON document.

    Raises:
        ValueError: it is not a Device.
    """
    view = decode_view(_DECODER, text, "a valid Device")
    meta, ignored = view.metadata, list[str]()
    where = f"Device {meta.name}"
    given = Fields({"devices": view.spec.devices}, where, ignored)
    ids: dict[tuple[str, int], str] = {}
    devices = tuple(_devices(given, ids))
    table = meta.annotations.partitions if meta.annotations is not None else None
    partitions = read_partitions(table, where, ignored)
    labels = meta.labels or {}
    honors = labels.get(LABEL_GPU_PARTITION_POLICY) == HONOR
    model = GPUModel(labels.get(LABEL_GPU_VENDOR, ""), labels.get(LABEL_GPU_MODEL, ""))
    has = NodeDevices(devices, partitions, honors)
    return DeviceReport(meta.name, has, ids, tuple(ignored), model)


def _devices(given: Fields, ids: dict[tuple[str, int], str]) -> Iterator[NodeDevice]:
    for one in given.objects("devices"):
        found = _device(one)
        if found is None:
            continue
        if (found.type, found.minor) in ids:
            one.refuse("minor", f"another number for each {found.type}", _LEFT_OUT)
            continue
        ids[found.type, found.minor] = one.text("id")
        yield found


def _device(fields: Fields) -> NodeDevice | None:
    kind = fields.text("type")
    minor = fields.number("minor", None, 0, _MOST_MINOR)
    if not kind or minor is None:
        missing, expected = ("minor", "a number") if kind else ("type", "gpu, rdma or fpga")
        if not fields.has(missing):
            fields.refuse(missing, expected, _LEFT_OUT)
        return None
    return NodeDevice(
        kind,
        minor,
        _amounts(fields.of("resources")) if fields.flag("health", default=False) else (),
        _labels(fields.of("labels")),
        _topology(fields.of("topology")) if fields.has("topology") else None,
        tuple(_group(group) for group in fields.objects("vfGroups")),
    )


def _amounts(given: Fields) -> ResourceAmounts:
    names = sorted(name for name, _ in given.entries())
    found = (
        (name, given.take(name, 0, _amount, "a quantity from 0", "left out")) for name in names
    )
    return tuple((name, amount) for name, amount in found if amount)


def _amount(given: object) -> int:
    amount = whole(quantity(given))
    if not 0 <= amount <= _MOST_AMOUNT:
        raise ValueError(given)
    return amount


def _labels(given: Fields) -> DeviceLabels:
    return tuple(sorted((name, given.text(name)) for name, _ in given.entries()))


def _topology(given: Fields) -> DeviceTopology:
    return DeviceTopology(given.number("nodeID", 0, -1, 63), given.text("pcieID"))


def _group(given: Fields) -> VirtualFunctionGroup:
    functions = (
        VirtualFunction(one.text("busID"), one.number("minor", 0, -1, _MOST_MINOR))
        for one in given.objects("vfs")
    )
    known = tuple(function for function in functions if function.bus)
    return VirtualFunctionGroup(_labels(given.of("labels")), known)
