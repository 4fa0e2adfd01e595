"""IO limits and weights by block device, as ``blkioQOS`` of a NodeSLO or of a pod asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from koord_model.annotations import fields_of
from koord_model.fields import Fields, text
from koord_model.keys import ANNOTATION_BLKIO_QOS
from koord_model.pod import Pod

MOST_BLOCKS = 64
"""Largest number of blocks read from one list: an annotation could have tens of thousands."""

MOST = (1 << 63) - 1
"""Operations, bytes or µs: what the kernel's numbers hold."""


class BlockType(StrEnum):
    """Kind of thing that a block's name refers to."""

    DEVICE = "device"  # "/dev/vda"
    VOLUME_GROUP = "volumegroup"  # LVM's
    POD_VOLUME = "podvolume"  # a volume of the pod


@dataclass(frozen=True, slots=True)
class BlockQoS:
    """Limits of one device; ``None`` leaves it alone, a limit of 0 is none.

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


def read(fields: Fields) -> BlkIOQoS:
    """A section of the NodeSLO; it asks for nothing where it is not enabled."""
    found = BlkIOQoS(enable=fields.flag("enable", default=False), blocks=_blocks(fields))
    return found if found.enable else BlkIOQoS()


def of_pod(pod: Pod) -> tuple[BlkIOQoS, tuple[str, ...]]:
    """Return a pod's own settings, none without annotation; and lines on ignored parts."""
    ignored: list[str] = []
    fields = fields_of(pod, ANNOTATION_BLKIO_QOS, ignored)
    found = BlkIOQoS() if fields is None else BlkIOQoS(enable=True, blocks=_blocks(fields))
    return found, tuple(ignored)


def _blocks(fields: Fields) -> tuple[BlockQoS, ...]:
    read_blocks = (_block(block) for block in fields.objects("blocks", MOST_BLOCKS))
    return tuple(block for block in read_blocks if block is not None)


def _block(fields: Fields) -> BlockQoS | None:
    """One block, or ``None`` if its device is not certain: another's must not be changed."""
    out = "the block is left out"
    before = len(fields.ignored)
    name = fields.take("name", "", _name, "a name", out)
    kinds = " or ".join(BlockType)
    kind = fields.take("type", BlockType.DEVICE, _type, kinds, out)
    if len(fields.ignored) > before:
        return None
    if not name:
        fields.refuse("name", "a name", out)
        return None
    asked = fields.of("ioCfg")

    def number(field: str, low: int = 0, high: int = MOST) -> int | None:
        return asked.number(field, None, low, high)

    return BlockQoS(
        name=name,
        type=kind,
        read_iops=number("readIOPS"),
        write_iops=number("writeIOPS"),
        read_bps=number("readBPS"),
        write_bps=number("writeBPS"),
        weight=number("ioWeightPercent", 1, 100),
        read_latency=number("readLatency"),
        write_latency=number("writeLatency"),
        read_latency_percent=number("readLatencyPercent", 0, 100),
        write_latency_percent=number("writeLatencyPercent", 0, 100),
        user_model=asked.flag("enableUserModel", None),
        model_read_bps=number("modelReadBPS", 1),
        model_write_bps=number("modelWriteBPS", 1),
        model_read_seq_iops=number("modelReadSeqIOPS", 1),
        model_write_seq_iops=number("modelWriteSeqIOPS", 1),
        model_read_rand_iops=number("modelReadRandIOPS", 1),
        model_write_rand_iops=number("modelWriteRandIOPS", 1),
    )


def _name(given: object) -> str:
    name = text(given)
    if not name.isprintable() or ".." in name.split("/"):
        raise ValueError(given)
    return name


def _type(given: object) -> BlockType:
    return BlockType(text(given) or BlockType.DEVICE)
