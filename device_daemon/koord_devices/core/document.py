"""The file that koordlet reads: Koordinator's ``XPUDevices``, a JSON array.

Beside Koordinator's fields a device may have ``driver``, ``details``, ``timestamp`` (when its
vendor's tool last answered) and ``expiryTime`` (from when on nobody says that it is still so).
Koordinator's koordlet ignores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from koord_model.node_info import SchedulableDevice
from koord_model.quantity import whole
from koord_model.times import from_rfc3339, rfc3339

from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.inventory import VendorState

Document = list[dict[str, Any]]
_MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Expiry:
    """When devices are written, and for how many seconds that holds."""

    at: float
    seconds: float


def document(states: Mapping[str, VendorState], expiry: Expiry | None) -> Document:
    """All accelerators, by vendor and minor; without ``expiry`` no times."""
    return [
        _device(one, states[vendor], expiry)
        for vendor in sorted(states)
        for one in states[vendor].accelerators
    ]


def _device(one: Accelerator, state: VendorState, expiry: Expiry | None) -> dict[str, Any]:
    device = one.device
    written: dict[str, Any] = {
        "vendor": one.vendor,
        "model": one.model,
        "uuid": device.id,
        "minor": str(device.minor),
        "resources": {
            name: _quantity(name, each)
            for name, each in device.resources.items()
            if each or not name.endswith("memory")
        },
        "topology": _topology(one),
        "status": _status(device),
    }
    if one.driver:
        written["driver"] = one.driver
    if one.details:
        written["details"] = dict(one.details)
    if expiry is not None:
        written["timestamp"] = rfc3339(state.answered_at)
        written["expiryTime"] = rfc3339(expiry.at + expiry.seconds)
    return written


def _topology(one: Accelerator) -> dict[str, Any]:
    device = one.device
    topology: dict[str, Any] = {}
    if one.links:
        topology["p2pLinks"] = [
            {"peerMinor": ",".join(map(str, link.peers)), "type": link.type} for link in one.links
        ]
    topology["socketID"] = str(device.socket)
    topology["nodeID"] = str(device.numa_node)
    topology["pcieID"] = device.pcie
    topology["busID"] = device.bus
    return topology


def _status(device: SchedulableDevice) -> dict[str, Any]:
    if device.healthy:
        return {"healthy": True}
    return {"healthy": False, "errCode": device.reason, "errMessage": device.message}


def _quantity(name: str, amount: int) -> str:
    if name.endswith("memory") and amount and not amount % _MEBI:
        return f"{amount // _MEBI}Mi"
    return str(amount)


def encode(given: Document) -> bytes:
    """The file's content."""
    return msgspec.json.format(msgspec.json.encode(given), indent=2) + b"\n"


def states_of(text: str | bytes) -> dict[str, VendorState]:
    """What was known when a file was written, by vendor: nothing of it is confirmed yet.

    What is not a device is left out; of a file that is not JSON nothing is known.
    """
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    found: dict[str, list[tuple[Accelerator, float]]] = {}
    for one, at in _devices(given):
        found.setdefault(one.vendor, []).append((one, at))
    return {
        vendor: VendorState(tuple(one for one, _ in each), max(at for _, at in each))
        for vendor, each in found.items()
    }


def _devices(given: object) -> Iterator[tuple[Accelerator, float]]:
    for one in given if isinstance(given, list) else ():
        try:
            yield _read(one), from_rfc3339(one.get("timestamp", "1970-01-01T00:00:00Z"))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue


def _read(one: Mapping[str, Any]) -> Accelerator:
    topology, status = one["topology"], one["status"]
    device = SchedulableDevice(
        type="gpu",
        id=one["uuid"],
        minor=int(one["minor"]),
        resources={name: whole(each) for name, each in one["resources"].items()},
        healthy=status["healthy"] is True,
        reason=str(status.get("errCode", "")),
        message=str(status.get("errMessage", "")),
        socket=int(topology.get("socketID", -1)),
        numa_node=int(topology.get("nodeID", -1)),
        pcie=str(topology.get("pcieID", "")),
        bus=str(topology.get("busID", "")),
    )
    return Accelerator(
        device,
        str(one["vendor"]),
        str(one["model"]),
        str(one.get("driver", "")),
        tuple(_links(topology.get("p2pLinks", ()))),
        dict(one.get("details", {})),
    )


def _links(given: Iterable[Mapping[str, str]]) -> Iterator[DeviceLink]:
    for link in given:
        yield DeviceLink(tuple(map(int, link["peerMinor"].split(","))), str(link["type"]))
