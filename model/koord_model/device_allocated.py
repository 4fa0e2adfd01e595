"""The devices the scheduler gave a pod, as it says in its annotation.

``scheduling.koordinator.sh/device-allocated`` lists them by type. One that cannot be
used is left out with a line; only the type that is asked for is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from koord_model.annotations import about, decode, read
from koord_model.fields import Fields, quantity, text
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.pod import Pod
from koord_model.quantity import whole

_Device = TypeVar("_Device")

_MOST = 1 << 53
"""Larger amounts are typing errors."""


@dataclass(frozen=True, slots=True)
class GPU:
    """A GPU, or a part of one: ``core`` and ``memory_ratio`` in percent, ``memory`` in bytes.

    ``None`` is unset.
    """

    minor: int
    core: int | None = None
    memory: int | None = None
    memory_ratio: int | None = None


@dataclass(frozen=True, slots=True)
class RDMA:
    """The PCI addresses of an RDMA device: of its virtual functions, if it is given by those."""

    addresses: tuple[str, ...]


def gpus(pod: Pod) -> tuple[tuple[GPU, ...], tuple[str, ...]]:
    """The pod's GPUs, and lines on what was ignored.

    Raises:
        ValueError: the annotation is not a JSON object; one line says how.
    """
    return _devices(pod, "gpu", _gpu)


def rdma_devices(pod: Pod) -> tuple[tuple[RDMA, ...], tuple[str, ...]]:
    """The pod's RDMA devices, and lines on what was ignored.

    Raises:
        ValueError: the annotation is not a JSON object; one line says how.
    """
    return _devices(pod, "rdma", _rdma)


def where(pod: Pod) -> str:
    """Return the beginning of lines about the annotation."""
    return f"{about(pod, ANNOTATION_DEVICE_ALLOCATED)}:"


_OBJECT: msgspec.json.Decoder[dict[str, object] | None] = msgspec.json.Decoder(
    dict[str, object] | None
)


def _devices(
    pod: Pod, kind: str, read_device: Callable[[Fields], _Device | None]
) -> tuple[tuple[_Device, ...], tuple[str, ...]]:
    given = read(pod, ANNOTATION_DEVICE_ALLOCATED, lambda text: decode(_OBJECT, text))
    ignored: list[str] = []
    found = [read_device(fields) for fields in Fields(given, where(pod), ignored).objects(kind)]
    return tuple(device for device in found if device is not None), tuple(ignored)


def _gpu(fields: Fields) -> GPU | None:
    minor = fields.take("minor", -1, _minor, "a device's number", "the device is left out")
    if minor < 0:
        if not fields.has("minor"):
            fields.refuse("minor", "a device's number", "the device is left out")
        return None
    resources = fields.of("resources")
    return GPU(
        minor,
        core=_amount(resources, GPU_CORE),
        memory=_amount(resources, GPU_MEMORY),
        memory_ratio=_amount(resources, GPU_MEMORY_RATIO),
    )


def _rdma(fields: Fields) -> RDMA | None:
    expected, out = "a PCI address", "left out"
    functions = [
        vf.take("busID", "", text, expected, out) for vf in fields.of("extension").objects("vfs")
    ]
    if functions:
        return RDMA(tuple(address for address in functions if address))
    address = fields.take("id", "", text, expected, out)
    return RDMA((address,)) if address else None


def _amount(resources: Fields, name: str) -> int | None:
    return resources.take(name, None, _quantity, "an amount", "left out")


def _quantity(given: object) -> int:
    amount = whole(quantity(given))
    if not 0 <= amount <= _MOST:
        raise ValueError(given)
    return amount


def _minor(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 20:
        raise ValueError(given)
    return given
