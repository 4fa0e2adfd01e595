"""IO limits and weights by block device, as ``blkioQOS`` of a NodeSLO or of a pod asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BlockType(StrEnum):
    """What a block's name names."""

    DEVICE = "device"  # "/dev/vda"
    VOLUME_GROUP = "volumegroup"  # LVM's
    POD_VOLUME = "podvolume"  # a volume of the pod


@dataclass(frozen=True, slots=True)
class BlockQoS:
    """What is asked of one device; ``None`` leaves it alone, a limit of 0 is none.

    ``*_iops`` are operations a second, ``*_bps`` bytes a second, ``weight`` 1 to 100.
    Latencies are µs, their percentiles percent: of io.cost, as ``model_*`` (bytes or operations
    a second that the device can do) is with ``user_model``.
    """

    name: str
    type: BlockType = BlockType.DEVICE
    read_iops: int | None = None
    write_iops: int | None = None
    read_bps: int | None = None
    write_bps: int | None = None
    weight: int | None = None
    read_latency: int | None = None
    write_latency: int | None = None
    read_latency_percent: int | None = None
    write_latency_percent: int | None = None
    user_model: bool | None = None
    model_read_bps: int | None = None
    model_write_bps: int | None = None
    model_read_seq_iops: int | None = None
    model_write_seq_iops: int | None = None
    model_read_rand_iops: int | None = None
    model_write_rand_iops: int | None = None


@dataclass(frozen=True, slots=True)
class BlkIOQoS:
    """All devices that something is asked of."""

    enable: bool = False
    blocks: tuple[BlockQoS, ...] = ()
