"""The devices that a pod has, as its annotation says: read, and written. No IO.

``scheduling.koordinator.sh/device-allocated`` lists them by type; koordlet gives them to
containers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, quantity
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_model.quantity import quantity_text, whole

from koord_scheduler.plugins.device_share.device_object import ResourceAmounts, VirtualFunction

_MOST = 1 << 53


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


PodDevices = tuple[PodDevice, ...]
NO_DEVICES: PodDevices = ()

_OBJECT = msgspec.json.Decoder(dict[str, object] | None)


def read_pod_devices(text: str) -> PodDevices:
    """The devices in the annotation; one that cannot be used is left out, which koordlet says.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        document = _OBJECT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said = f"annotation {ANNOTATION_DEVICE_ALLOCATED} is {excerpt(text)}"
        raise ValueError(f"{said}; expected a JSON object") from None
    given = Fields(document, ANNOTATION_DEVICE_ALLOCATED, [])
    return tuple(
        _device(kind, one)
        for kind in sorted(document or ())
        for one in given.objects(kind)
        if one.number("minor", None, 0, 1 << 20) is not None
    )


def _device(kind: str, one: Fields) -> PodDevice:
    resources = one.of("resources")
    names = sorted(name for name, _ in resources.entries())
    amounts = ((name, resources.take(name, 0, _amount, "an amount")) for name in names)
    extension = one.of("extension")
    functions = tuple(
        VirtualFunction(vf.text("busID"), vf.number("minor", 0, -1, 1 << 20))
        for vf in extension.objects("vfs")
    )
    return PodDevice(
        kind,
        one.number("minor", 0, 0, 1 << 20),
        tuple((name, amount) for name, amount in amounts if amount),
        one.text("id"),
        tuple(vf for vf in functions if vf.bus),
        extension.text("gpuSharedResourceTemplate"),
    )


def _amount(given: object) -> int:
    amount = whole(quantity(given))
    if not 0 <= amount <= _MOST:
        raise ValueError(given)
    return amount


def written_pod_devices(devices: PodDevices) -> str:
    """The annotation for what a pod gets, as koordlet reads it."""
    written: dict[str, list[dict[str, Any]]] = {}
    for one in devices:
        written.setdefault(one.type, []).append(_document(one))
    return msgspec.json.encode(written).decode()


def _document(one: PodDevice) -> dict[str, Any]:
    resources = {name: quantity_text(name, amount) for name, amount in one.resources}
    found: dict[str, Any] = {"minor": one.minor, "resources": resources}
    if one.id:
        found["id"] = one.id
    extension: dict[str, Any] = {}
    if one.functions:
        # As Go leaves out 0.
        extension["vfs"] = [
            {**({"minor": vf.minor} if vf.minor else {}), "busID": vf.bus} for vf in one.functions
        ]
    if one.template:
        extension["gpuSharedResourceTemplate"] = one.template
    return {**found, "extension": extension} if extension else found
