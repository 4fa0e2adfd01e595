"""The devices that the scheduler gave a pod, as its annotation says: read, and written. No IO.

``scheduling.koordinator.sh/device-allocated`` lists them by type. What cannot be used of it is left
out with a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from koord_model.annotations import about, decode, read
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, quantity, text
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_model.pod import Pod
from koord_model.quantity import quantity_text, whole

ResourceAmounts = tuple[tuple[str, int], ...]
"""Whole amounts by the names of resources, in the order of these; bytes, per cent or pieces."""

_MOST = 1 << 53
"""Larger amounts are typing errors."""


class VirtualFunction(NamedTuple):
    """A virtual function of a device, by its PCI address; "" where that cannot be used."""

    bus: str
    minor: int = 0


class PodDevice(NamedTuple):
    """A device, or a part of it, that a pod has.

    ``template`` names the way in which a card is divided, where there are only some.
    """

    type: str
    minor: int
    resources: ResourceAmounts
    id: str = ""
    functions: tuple[VirtualFunction, ...] = ()
    template: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The PCI addresses: of its virtual functions, if it is given by those."""
        found = [function.bus for function in self.functions] if self.functions else [self.id]
        return tuple(address for address in found if address)


PodDevices = tuple[PodDevice, ...]
NO_DEVICES: PodDevices = ()


_OBJECT: msgspec.json.Decoder[dict[str, object] | None] = msgspec.json.Decoder(
    dict[str, object] | None
)


def devices_of(pod: Pod, kind: str) -> tuple[PodDevices, tuple[str, ...]]:
    """The pod's devices of one type, and lines on what was left out of these.

    Raises:
        ValueError: the annotation is not a JSON object; one line says how.
    """
    given = read(pod, ANNOTATION_DEVICE_ALLOCATED, lambda text: decode(_OBJECT, text))
    ignored: list[str] = []
    return tuple(_devices(given, kind, where(pod), ignored)), tuple(ignored)


def read_pod_devices(annotation: str) -> PodDevices:
    """All devices in the annotation; what is left out koordlet says.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        given = _OBJECT.decode(annotation)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said = f"annotation {ANNOTATION_DEVICE_ALLOCATED} is {excerpt(annotation)}"
        raise ValueError(f"{said}; expected a JSON object") from None
    return tuple(
        device
        for kind in sorted(given or ())
        for device in _devices(given, kind, ANNOTATION_DEVICE_ALLOCATED, [])
    )


def where(pod: Pod) -> str:
    """The beginning of lines about the annotation."""
    return f"{about(pod, ANNOTATION_DEVICE_ALLOCATED)}:"


def _devices(
    given: Mapping[str, object] | None, kind: str, where: str, ignored: list[str]
) -> Iterator[PodDevice]:
    for fields in Fields(given, where, ignored).objects(kind):
        minor = fields.take("minor", -1, _minor, "a device's number", "the device is left out")
        if minor >= 0:
            yield _device(kind, minor, fields)
        elif not fields.has("minor"):
            fields.refuse("minor", "a device's number", "the device is left out")


def _device(kind: str, minor: int, fields: Fields) -> PodDevice:
    resources, extension = fields.of("resources"), fields.of("extension")
    amounts = (
        (name, resources.take(name, None, _amount, "an amount", "left out"))
        for name in sorted(name for name, _ in resources.entries())
    )
    functions = (
        VirtualFunction(
            vf.take("busID", "", text, "a PCI address", "left out"),
            vf.number("minor", 0, -1, 1 << 20),
        )
        for vf in extension.objects("vfs")
    )
    return PodDevice(
        kind,
        minor,
        tuple((name, amount) for name, amount in amounts if amount is not None),
        fields.take("id", "", text, "a device's id", "left out"),
        tuple(functions),
        extension.text("gpuSharedResourceTemplate"),
    )


def _minor(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 20:
        raise ValueError(given)
    return given


def _amount(given: object) -> int:
    amount = whole(quantity(given))
    if not 0 <= amount <= _MOST:
        raise ValueError(given)
    return amount


def write_pod_devices(devices: PodDevices) -> str:
    """The annotation for what a pod gets, as koordlet reads it."""
    written: dict[str, list[dict[str, Any]]] = {}
    for device in devices:
        written.setdefault(device.type, []).append(_document(device))
    return msgspec.json.encode(written).decode()


def _document(pod_device: PodDevice) -> dict[str, Any]:
    resources = {name: quantity_text(name, amount) for name, amount in pod_device.resources}
    found: dict[str, Any] = {"minor": pod_device.minor, "resources": resources}
    if pod_device.id:
        found["id"] = pod_device.id
    extension: dict[str, Any] = {}
    if pod_device.functions:
        # As Go leaves out 0.
        extension["vfs"] = [
            {**({"minor": vf.minor} if vf.minor else {}), "busID": vf.bus}
            for vf in pod_device.functions
        ]
    if pod_device.template:
        extension["gpuSharedResourceTemplate"] = pod_device.template
    return {**found, "extension": extension} if extension else found
