"""The file that koordlet reads: Koordinator's ``XPUDevices``, a JSON array.

Beside Koordinator's fields a device may have ``driver``, ``details``, ``timestamp`` (when its
vendor's tool last answered) and ``expiryTime`` (from when on nobody says that it is still so).
Koordinator's koordlet ignores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from koord_model.node_info import SchedulableDevice
from koord_model.quantity import whole
from koord_model.times import from_rfc3339, rfc3339

from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.inventory import VendorState

Document = list[dict[str, Any]]
_MEBI = 1 << 20

_Number = Annotated[str, msgspec.Meta(pattern=r"\A(-1|[0-9]{1,9})\Z")]
_Minors = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,9}(,[0-9]{1,9})*\Z")]
_Quantity = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,18}(Mi)?\Z")]


class _Link(msgspec.Struct):
    peers: _Minors = msgspec.field(name="peerMinor")
    type: str


class _Topology(msgspec.Struct):
    links: list[_Link] = msgspec.field(default_factory=list, name="p2pLinks")
    socket: _Number = msgspec.field(default="-1", name="socketID")
    numa_node: _Number = msgspec.field(default="-1", name="nodeID")
    pcie: str = msgspec.field(default="", name="pcieID")
    bus: str = msgspec.field(default="", name="busID")


class _Status(msgspec.Struct):
    healthy: bool
    reason: str = msgspec.field(default="", name="errCode")
    message: str = msgspec.field(default="", name="errMessage")


class _Written(msgspec.Struct):
    """A device as ``document`` writes it: the file may be anybody's by now."""

    vendor: str
    model: str
    uuid: Annotated[str, msgspec.Meta(min_length=1)]
    minor: _Number
    resources: dict[str, _Quantity]
    topology: _Topology
    status: _Status
    driver: str = ""
    details: dict[str, Any] = {}
    timestamp: str = "1970-01-01T00:00:00Z"


_WRITTEN = msgspec.json.Decoder(_Written)
_LISTED = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Expiry:
    """Time at which devices are written, and the seconds for which that holds."""

    at: float
    seconds: float


def document(states: Mapping[str, VendorState], expiry: Expiry | None) -> Document:
    """All accelerators, by vendor and minor; without ``expiry`` no times."""
    return [
        _device(accelerator, states[vendor], expiry)
        for vendor in sorted(states)
        for accelerator in states[vendor].accelerators
    ]


def _device(accelerator: Accelerator, state: VendorState, expiry: Expiry | None) -> dict[str, Any]:
    device = accelerator.device
    written: dict[str, Any] = {
        "vendor": accelerator.vendor,
        "model": accelerator.model,
        "uuid": device.id,
        "minor": str(device.minor),
        "resources": {
            name: _quantity(name, each)
            for name, each in device.resources.items()
            if each or not name.endswith("memory")
        },
        "topology": _topology(accelerator),
        "status": _status(device),
    }
    if accelerator.driver:
        written["driver"] = accelerator.driver
    if accelerator.details:
        written["details"] = dict(accelerator.details)
    if expiry is not None:
        written["timestamp"] = rfc3339(state.answered_at)
        written["expiryTime"] = rfc3339(expiry.at + expiry.seconds)
    return written


def _topology(accelerator: Accelerator) -> dict[str, Any]:
    device = accelerator.device
    topology: dict[str, Any] = {}
    if accelerator.links:
        topology["p2pLinks"] = [
            {"peerMinor": ",".join(map(str, link.peers)), "type": link.type}
            for link in accelerator.links
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
    """Read the states of a written file by vendor: nothing of it is confirmed yet.

    What is not a device is left out; of a file that is not JSON nothing is known.
    """
    try:
        given = _LISTED.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    found: dict[str, list[tuple[Accelerator, float]]] = {}
    for accelerator, at in _devices(given):
        found.setdefault(accelerator.vendor, []).append((accelerator, at))
    return {
        vendor: VendorState(
            tuple(accelerator for accelerator, _ in each), max(at for _, at in each)
        )
        for vendor, each in found.items()
    }


def _devices(given: list[msgspec.Raw]) -> Iterator[tuple[Accelerator, float]]:
    for raw in given:
        try:
            document = _WRITTEN.decode(raw)
            yield _read(document), from_rfc3339(document.timestamp)
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
            continue


def _read(written: _Written) -> Accelerator:
    topology, status = written.topology, written.status
    device = SchedulableDevice(
        type="gpu",
        id=written.uuid,
        minor=int(written.minor),
        resources={name: whole(each) for name, each in written.resources.items()},
        healthy=status.healthy,
        reason=status.reason,
        message=status.message,
        socket=int(topology.socket),
        numa_node=int(topology.numa_node),
        pcie=topology.pcie,
        bus=topology.bus,
    )
    links = (
        DeviceLink(tuple(map(int, link.peers.split(","))), link.type) for link in topology.links
    )
    return Accelerator(
        device, written.vendor, written.model, written.driver, tuple(links), written.details
    )
