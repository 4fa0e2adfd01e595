"""Description of the node's machine, for collectors and reports. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Processor:
    """One logical CPU.

    ``core`` is unique on its machine, not only in its socket. ``l3`` is the id of its
    last-level cache, -1 where there is none.
    """

    id: int
    core: int
    socket: int
    node: int
    l3: int = -1
    online: bool = True


@dataclass(frozen=True, slots=True)
class NodeCPUInfo:
    """The node's CPUs.

    ``cbm_mask`` is resctrl's full capacity mask, "" without resctrl. ``smt`` and
    ``turbo`` are whether they are on, ``None`` where the kernel does not say.
    """

    processors: tuple[Processor, ...]
    model: str = ""
    vendor: str = ""
    smt: bool | None = None
    turbo: bool | None = None
    cbm_mask: str = ""

    @property
    def online(self) -> tuple[Processor, ...]:
        """The CPUs that run."""
        return tuple(processor for processor in self.processors if processor.online)


@dataclass(frozen=True, slots=True)
class MemoryBandwidthInfo:
    """Limits of memory bandwidth (resctrl's MB lines) when traffic was measured.

    All in the unit of the lines, which may be percent, eighths of GB/s or MiB/s. ``steady`` is
    when, ``full`` what 100 % is (``None``: nothing on the node says), ``limits`` are by group
    and cache.
    """

    steady: float
    least: int
    step: int
    full: int | None
    limits: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node: memory in bytes, how many huge pages by their size in bytes, its CPUs.

    There may be no memory, or no CPUs.
    """

    id: int
    memory: int
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeMemoryInfo:
    """The node's memory in bytes, whole and by NUMA node."""

    total: int
    nodes: tuple[NumaNode, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Disks and what lies on them; devices by path ("/dev/vdb"), numbers as "253:16".

    ``numbers`` are all block devices', partitions and logical volumes too
    ("/dev/mapper/vg-lv"). ``parents`` are the disks of those that lie on one disk alone,
    however many layers lie between; ``volume_groups`` are the disks of LVM's groups, of
    which the same holds. ``mounts`` are device numbers by mount point.
    """

    numbers: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    volume_groups: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VirtualFunctions:
    """SR-IOV functions of a device, as far as they are free or not: PCI addresses."""

    addresses: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulableDevice:
    """One accelerator or RDMA device, as the Device object shows it to the scheduler.

    ``resources`` are quantities by resource name. ``reason`` is one word that says why it
    is not healthy ("Xid79"), ``message`` says it to people.
    """

    type: str
    id: str
    minor: int
    resources: Mapping[str, int] = field(default_factory=dict)
    healthy: bool = True
    reason: str = ""
    message: str = ""
    socket: int = -1
    numa_node: int = -1
    pcie: str = ""
    bus: str = ""
    virtual_functions: tuple[VirtualFunctions, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GPUs:
    """The node's GPUs; ``model`` is "" where they differ.

    ``partitions`` is the table of those that are linked, as JSON, and ``partition_policy``
    how it binds the scheduler ("Honor", "Prefer"). Where not all sources about devices could
    be read it is not ``whole``: some may be missing.
    """

    devices: tuple[SchedulableDevice, ...]
    vendor: str = ""
    model: str = ""
    driver: str = ""
    partitions: str = ""
    partition_policy: str = ""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class XPUs(GPUs):
    """Accelerators as device plugins describe them in files, of any vendor."""


@dataclass(frozen=True, slots=True)
class RDMADevices:
    """The node's RDMA devices; not ``whole`` where some could not be read."""

    devices: tuple[SchedulableDevice, ...]
    whole: bool = True
