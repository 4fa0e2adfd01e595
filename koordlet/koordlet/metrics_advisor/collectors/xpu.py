"""Accelerators that device plugins describe in files: the info ``XPUs``.

Sources: the files of ``--xpu-device-infos-dir``, each a JSON array of objects with vendor,
model, uuid, minor (text), resources (quantities by name), topology {socketID, nodeID,
pcieID, busID: text; mustHonorPartition; p2pLinks [{peerMinor "1,2", type}]} and status
{healthy, errCode, errMessage}: Koordinator's format, for accelerators of any vendor.

A file that is not such an array is ignored, as is a bad device or a bad field; each
with a line. Without a file or a device some may be missing: the info is not ``whole``, and
those that were known before are not taken for removed. A device without ``status`` counts as
healthy, as in Koordinator. Vendor, model and policy of the node are those of the first device.

koord-device-daemon also writes ``expiryTime`` (RFC 3339): from then on nobody has said that a
device is still as described, and it is not healthy (``Stale``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
from koord_model.excerpt import excerpt
from koord_model.fields import Fields
from koord_model.keys import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.node_info import SchedulableDevice, XPUs
from koord_model.quantity import whole
from koord_model.times import from_rfc3339, rfc3339

from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

T = TypeVar("T")

INTERVAL = "node_topology_sync_interval"
ENABLED_BY = ("Accelerators",)

_OURS = {"gpu-core": GPU_CORE, "gpu-memory": GPU_MEMORY}
_RESOURCE = re.compile(r"[A-Za-z0-9._/-]{1,253}")
_DIGITS = re.compile(r"[0-9]{1,10}")
_LARGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Link:
    """Devices by minor that are linked directly, and how."""

    minors: tuple[int, ...]
    type: str


@dataclass(frozen=True, slots=True)
class _DescribedDevice:
    """One device, and what it reports about its node."""

    device: SchedulableDevice
    vendor: str
    model: str
    links: tuple[_Link, ...] = ()
    honor: bool = False
    expires: float = math.inf
    """Time at which it is stale, in seconds since the epoch."""

    def at(self, now: float) -> _DescribedDevice:
        """The device as it is to be taken at a time."""
        if now < self.expires or not self.device.healthy:
            return self
        message = f"nothing has confirmed it since {rfc3339(self.expires)}"
        stale = replace(self.device, healthy=False, reason="Stale", message=message)
        return replace(self, device=stale)


@dataclass(frozen=True, slots=True)
class _File:
    """A file's content when it was last read."""

    text: str
    devices: tuple[_DescribedDevice, ...] = ()
    ignored: tuple[str, ...] = ()
    whole: bool = True


class Collector:
    """Reads the files at each run, and parses those that changed."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._directory = sources.xpu_device_infos_dir
        self._files: dict[str, _File] = {}

    def collect(self, context: CollectContext) -> Samples:
        """All devices of all files."""
        partial: list[str] = []
        self._files = {name: self._file(name, partial) for name in self._names()}
        found: dict[str, _DescribedDevice] = {}
        for name, file in self._files.items():
            partial += file.ignored
            for device in file.devices:
                if device.device.id in found:
                    where = f"{self._directory}/{name}"
                    partial.append(
                        f"{where}: {excerpt(device.device.id)} is described twice (first one kept)"
                    )
                else:
                    found[device.device.id] = device
        whole = all(file.whole for file in self._files.values())
        now = context.at
        info = replace(_together(device.at(now) for device in found.values()), whole=whole)
        return Samples(infos=(info,), partial=tuple(partial))

    def _names(self) -> list[str]:
        try:
            entries = set(self._tree.entries(self._directory))
            # A plugin that writes a file aside and renames it names it with a dot first.
            names = self._tree.names(self._directory)
            return [name for name in names if name not in entries and not name.startswith(".")]
        except FileNotFoundError as error:
            if self._files:
                return []  # its plugin has taken it away, with the devices
            raise UnavailableError(
                f"{self._directory} is not there: no device plugin describes accelerators in it"
            ) from error
        except OSError as error:
            # The devices that were described stay.
            raise UnavailableError(
                f"{self._directory} cannot be read: {error.strerror or error}"
            ) from error

    def _file(self, name: str, partial: list[str]) -> _File:
        path = f"{self._directory}/{name}"
        try:
            text = self._tree.read(path)
        except FileNotFoundError:
            return _File("")
        except OSError as error:
            partial.append(f"{path} cannot be read: {error.strerror}")
            return _File("", whole=False)
        before = self._files.get(name)
        return before if before is not None and before.text == text else _read(path, text)


def _read(path: str, text: str) -> _File:
    """Parse a file."""
    ignored: list[str] = []
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        line = f"{path} is not valid JSON: {error} (file ignored)"
        return _File(text, ignored=(line,), whole=False)
    if given is not None and not isinstance(given, list):
        line = f"{path} is not a JSON array of devices (file ignored)"
        return _File(text, ignored=(line,), whole=False)
    listed = Fields({"devices": given}, path, ignored).objects("devices")
    devices = [found for item in listed if (found := _device(item)) is not None]
    return _File(text, tuple(devices), tuple(ignored), len(devices) == len(given or ()))


def _device(given: Fields) -> _DescribedDevice | None:
    """One device; ``None`` for one that cannot be named."""
    uuid = _needed(given, "uuid", "", _identifier, "the device's identifier")
    minor = _needed(given, "minor", -1, _number, 'a number like "0"')
    if not uuid or minor < 0:
        return None
    topology, status = given.of("topology"), given.of("status")
    healthy = status.flag("healthy", False) if given.has("status") else True
    device = SchedulableDevice(
        type="gpu",
        id=uuid,
        minor=minor,
        resources=_resources(given),
        healthy=healthy,
        reason="" if healthy else status.text("errCode") or "Unknown",
        message="" if healthy else status.text("errMessage"),
        numa_node=topology.take("nodeID", -1, _number_or_none, "a number as text", "-1 kept"),
        pcie=topology.text("pcieID"),
        bus=topology.text("busID"),
    )
    links = tuple(_links(topology, minor))
    honor = topology.flag("mustHonorPartition", False)
    expires = given.take("expiryTime", math.inf, _time, "a time in RFC 3339", "ignored")
    vendor, model = given.text("vendor"), given.text("model")
    return _DescribedDevice(device, vendor, model, links, honor, expires)


def _needed(
    given: Fields, name: str, default: T, accept: Callable[[object], T], expected: str
) -> T:
    """A required field of a device."""
    if not given.has(name):
        given.refuse(name, expected, "device ignored")
    return given.take(name, default, accept, expected, "device ignored")


def _resources(given: Fields) -> Mapping[str, int]:
    """Quantities by resource name; gpu-core and gpu-memory may be spelled without domain."""
    resources = {GPU_MEMORY_RATIO: 100}
    fields = given.of("resources")
    names: tuple[str, ...] = ()
    names = given.take("resources", names, _keys, "quantities by resource name", "left out")
    for name in names:
        quantity = fields.take(name, -1, _quantity, "a quantity", "left out")
        if quantity >= 0:
            resources[_OURS.get(name, name)] = quantity
    return resources


def _links(topology: Fields, minor: int) -> Iterable[_Link]:
    no_peers: tuple[int, ...] = ()
    for link in topology.objects("p2pLinks"):
        peers = link.take("peerMinor", no_peers, _numbers, 'minors like "1,2"', "link left out")
        kind = link.text("type")
        if peers and kind:
            yield _Link(tuple(sorted({minor, *peers})), kind)


def _together(found: Iterable[_DescribedDevice]) -> XPUs:
    described = sorted(
        found,
        key=lambda described_device: (described_device.device.minor, described_device.device.id),
    )
    if not described:
        return XPUs(())
    first = described[0]
    linked = any(described_device.links for described_device in described)
    honor = any(described_device.honor for described_device in described)
    return XPUs(
        tuple(described_device.device for described_device in described),
        vendor=first.vendor,
        model=first.model,
        partitions=_partitions(
            link for described_device in described for link in described_device.links
        ),
        partition_policy=("Honor" if honor else "Prefer") if linked else "",
    )


def _partitions(links: Iterable[_Link]) -> str:
    """The table of partitions by their size, as the scheduler reads it; "" without links."""
    kinds: dict[tuple[int, ...], str] = {}
    for link in links:
        kinds.setdefault(link.minors, link.type)
    table: dict[str, list[dict[str, object]]] = {}
    for minors in sorted(kinds, key=lambda minors: (len(minors), minors)):
        entry = {"minors": list(minors), "gpuLinkType": kinds[minors], "allocationScore": 1}
        table.setdefault(str(len(minors)), []).append(entry)
    return msgspec.json.encode(table).decode() if table else ""


def _keys(given: object) -> tuple[str, ...]:
    # Its Fields report a field that is not an object.
    names = tuple(given) if isinstance(given, Mapping) else ()
    if not all(_RESOURCE.fullmatch(name) for name in names):
        raise ValueError(given)
    return names


def _identifier(given: object) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError(given)
    return given


def _number(given: object) -> int:
    """A minor: a number, or text that is one."""
    spelled = str(given) if isinstance(given, str | int) else ""
    if not _DIGITS.fullmatch(spelled) or int(spelled) > _LARGEST:
        raise ValueError(given)
    return int(spelled)


def _number_or_none(given: object) -> int:
    return -1 if given in ("", "-1", -1) else _number(given)


def _numbers(given: object) -> tuple[int, ...]:
    return tuple(_number(part.strip()) for part in str(given).split(","))


def _time(given: object) -> float:
    return from_rfc3339(given if isinstance(given, str) else "")


def _quantity(given: object) -> int:
    quantity = -1 if isinstance(given, bool) else whole(str(given))
    if quantity < 0:
        raise ValueError(given)
    return quantity
