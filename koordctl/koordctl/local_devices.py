"""``koordctl devices --local``: this node's accelerators and RDMA cards, and what is wrong.

From the files that koordlet reads, and from sysfs; which pods use GPUs, from koordlet.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from koord_host.devices.rdma import RDMAReader
from koord_host.kernel_files.interface import FileTree
from koord_model.node_info import SchedulableDevice
from koord_model.times import from_rfc3339
from koord_service.http_targets import with_query

from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import SeriesDocument
from koordctl.output.tables import Block, table
from koordctl.render import clean
from koordctl.reservations import quantities

DIRECTORY = "/var/run/koordlet/xpu-device-infos"
_HEADER = ("VENDOR", "MINOR", "MODEL", "HAS", "HEALTHY", "NUMA", "PCIE", "BUS", "LINKS", "PODS")
_DOMAIN = "koordinator.sh/"

Json = dict[str, Any]


def documents(directory: str, tree: FileTree, address: str, now: float) -> list[Json]:
    """Each device, and the pods that use it.

    Raises:
        AskError: the directory cannot be read.
    """
    users = _users(address)
    found = [
        {**device, "pods": sorted(users.get(str(device.get("uuid")), ()))}
        for device in described(directory, now)
    ]
    rdma, _ = RDMAReader(tree).read()
    return [*found, *map(_rdma, rdma.devices)]


def lines(found: Iterable[Json]) -> Iterator[Block]:
    """A line for each device."""
    rows = [_row(device) for device in found]
    if not rows:
        yield f"No device found: koord-device-daemon describes them in {DIRECTORY}."
        return
    yield table([_HEADER, *rows])


def described(directory: str, now: float) -> Iterator[Json]:
    """Devices of the files in a directory, as koordlet takes them. Raises AskError."""
    try:
        files = sorted(path for path in Path(directory).iterdir() if path.is_file())
    except FileNotFoundError:
        return
    except OSError as error:
        raise AskError(f"{directory} cannot be read: {error.strerror}") from None
    for path in files:
        try:
            given = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise AskError(f"{path} cannot be read: {error}") from None
        for device in given if isinstance(given, list) else ():
            if isinstance(device, dict):
                yield _judged(device, now)


def _judged(device: Json, now: float) -> Json:
    """The device as koordlet takes it: one that nobody confirms is stale."""
    try:
        stale = from_rfc3339(device["expiryTime"]) <= now
    except (KeyError, TypeError, ValueError):
        return device
    status = device.get("status") or {}
    if not stale or not status.get("healthy", True):
        return device
    message = f"nothing has confirmed it since {device['expiryTime']}"
    return {**device, "status": {"healthy": False, "errCode": "Stale", "errMessage": message}}


def _rdma(device: SchedulableDevice) -> Json:
    functions = [bus for group in device.virtual_functions for bus in group.addresses]
    return {
        "vendor": "rdma",
        "uuid": device.id,
        "minor": str(device.minor),
        "model": f"{len(functions)} virtual functions" if functions else "",
        "resources": {name: str(amount) for name, amount in device.resources.items()},
        "status": {
            "healthy": device.healthy,
            "errCode": device.reason,
            "errMessage": device.message,
        },
        "topology": {
            "nodeID": str(device.numa_node),
            "pcieID": device.pcie,
            "busID": device.bus,
        },
        "virtualFunctions": functions,
        "pods": [],
    }


def _users(address: str) -> Mapping[str, set[str]]:
    """Pods by the UUID of each GPU that they use, as far as koordlet answers and measures it."""
    users = defaultdict[str, set[str]](set)
    query = {"kind": "pod_gpu_memory_usage", "window": "5m", "aggregation": "last", "points": "1"}
    try:
        page = with_query("/v1/metrics/query", query)
        _, series = ask_koordlet(address, page, SeriesDocument)
    except AskError:
        return users
    for line in series.series:
        name = line.who or line.labels.get("pod_uid", "")
        users[line.labels.get("gpu_device_uuid", "")].add(name)
    return users


def _row(device: Json) -> tuple[str, ...]:
    topology, status = device.get("topology") or {}, device.get("status") or {}
    resources = device.get("resources") or {}
    amounts = {name.removeprefix(_DOMAIN): each for name, each in resources.items()}
    wrong = ": ".join(filter(None, (status.get("errCode"), status.get("errMessage"))))
    links = (f"{link['type']}:{link['peerMinor']}" for link in topology.get("p2pLinks") or ())
    node = topology.get("nodeID", "-1")
    cells = (
        device.get("vendor"),
        device.get("minor"),
        device.get("model"),
        quantities(amounts),
        "yes" if status.get("healthy", True) else f"no ({wrong})",
        UNKNOWN if node == "-1" else node,
        topology.get("pcieID"),
        topology.get("busID"),
        " ".join(links),
        ", ".join(device["pods"]),
    )
    return tuple(clean(str(cell or UNKNOWN)) for cell in cells)
