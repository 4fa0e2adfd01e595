"""``koordctl devices``: the devices of nodes, and which pods and reservations have them."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koord_model.device_allocated import read_pod_devices
from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED
from koord_model.quantity import quantity_texts

from koordctl import cluster_client, local_devices
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.koordlet_client import ADDRESS
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, StyledText, bad, good, table
from koordctl.render import clean
from koordctl.reservations import quantities

if TYPE_CHECKING:
    from koord_host.kernel_files.interface import FileTree
    from koord_kube.client import Client

Json = Mapping[str, Any]
DeviceKey = tuple[str, str, int]
"""Node, type and minor of a device."""

_HEADER = ("NODE", "TYPE", "MINOR", "HEALTHY", "NUMA", "PCIE", "HAS", "PODS", "RESERVATIONS")
_DOMAIN = "koordinator.sh/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl devices``."""
    parser.add_argument("node", nargs="?", default="", metavar="NODE", help="only this node")
    parser.add_argument(
        "--local",
        action="store_true",
        help="this node's devices, by the files that koordlet reads; asks no cluster",
    )
    parser.add_argument(
        "--device-files",
        default=local_devices.DIRECTORY,
        metavar="DIR",
        help="where these files are (default: %(default)s)",
    )
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The devices of the cluster, or of this node. Raises AskError."""
    if arguments.local:
        return _local(arguments)
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import DEVICES, PODS, RESERVATIONS
    from koord_kube.protocol.selectors import field_is, field_is_not

    node = arguments.node

    async def question(api: Client) -> tuple[list[Any], list[Any], list[Any]]:
        if node:
            found = [await _device(api, node)]
        else:
            found = await cluster_client.objects(api, DEVICES)
        on_node = field_is("spec.nodeName", node) if node else field_is_not("spec.nodeName", "")
        pods = await cluster_client.objects(api, PODS, selector=on_node)
        try:
            reservations = await cluster_client.objects(api, RESERVATIONS)
        except NotFoundError:
            reservations = []
        return found, pods, reservations

    found, pods, reservations = cluster_client.ask_cluster(arguments, question)
    shown = documents(found, pods, reservations)
    return CommandOutput(shown, lines(shown))


async def _device(api: Client, node: str) -> Json:
    """The Device of a node. Raises AskError if it has none."""
    from koord_kube.protocol.resources import DEVICES

    try:
        found: Json = await cluster_client.get(api, DEVICES, node)
        return found
    except AskError as error:
        hint = "koordlet reports devices with the gates Accelerators and RDMADevices"
        raise AskError(f"{error}; {hint}") from None


def _local(arguments: argparse.Namespace) -> CommandOutput:
    tree: FileTree = arguments.kernel()
    found = local_devices.documents(arguments.device_files, tree, ADDRESS, time.time())
    return CommandOutput(found, local_devices.lines(found))


def documents(
    found: Sequence[Json], pods: Iterable[Json], reservations: Iterable[Json]
) -> list[Any]:
    """Each device with its node, and what pods and reservations have got of it.

    What owners have of a reservation is part of both.
    """
    of_pods = _taken(pods, "spec", ("Pending", "Running", "Unknown", ""))
    of_reservations = _taken(reservations, "status", ("Available", "Waiting"))
    return [
        {
            "node": node,
            **device,
            "pods": [
                {"pod": name, "resources": resources}
                for name, resources in of_pods[_key(node, device)]
            ],
            "reservations": [
                {"reservation": name, "resources": resources}
                for name, resources in of_reservations[_key(node, device)]
            ],
        }
        for node, device in _devices(found)
    ]


def lines(found: Sequence[Json]) -> Iterator[Block]:
    """A line for each device."""
    shown = [_row(device) for device in found]
    if not shown:
        yield "No device found: koordlets report them with gates Accelerators and RDMADevices."
        return
    yield table([_HEADER, *shown])


def _row(device: Json) -> tuple[str, ...]:
    place = device.get("topology") or {}
    holders = (
        ", ".join(f"{each[kind]} ({_amounts(each['resources'])})" for each in device[f"{kind}s"])
        for kind in ("pod", "reservation")
    )
    cells = (
        device["node"],
        device.get("type", UNKNOWN),
        device.get("minor", UNKNOWN),
        good("yes") if device.get("health") else bad(clean(_wrong(device))),
        place.get("nodeID", UNKNOWN),
        place.get("pcieID") or UNKNOWN,
        _amounts(device.get("resources")),
        *(each or UNKNOWN for each in holders),
    )
    return tuple(cell if isinstance(cell, StyledText) else clean(str(cell)) for cell in cells)


def _wrong(device: Json) -> str:
    """That a device is not healthy, and why."""
    for condition in device.get("conditions") or ():
        if condition.get("type") == "Healthy" and condition.get("reason"):
            return f"no ({condition['reason']})"
    return "no"


def _amounts(given: Json | None) -> str:
    return quantities(
        {name.removeprefix(_DOMAIN): amount for name, amount in (given or {}).items()}
    )


def _devices(found: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    for node in sorted(found, key=_name):
        devices = (node.get("spec") or {}).get("devices") or ()
        for device in sorted(devices, key=lambda each: (each.get("type"), each.get("minor", 0))):
            yield _name(node), device


def _taken(
    objects: Iterable[Json], says_node: str, phases: Sequence[str]
) -> defaultdict[DeviceKey, list[tuple[str, Json]]]:
    """Return objects in these phases by the devices that the scheduler has allocated to them.

    What is unreadable is left out. ``says_node`` is the field in which they have ``nodeName``.
    """
    taken = defaultdict[DeviceKey, list[tuple[str, Json]]](list)
    for document in objects:
        metadata, node = (
            document.get("metadata") or {},
            (document.get(says_node) or {}).get("nodeName"),
        )
        text = (metadata.get("annotations") or {}).get(ANNOTATION_DEVICE_ALLOCATED)
        if not node or not text or (document.get("status") or {}).get("phase", "") not in phases:
            continue
        name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        try:
            devices = read_pod_devices(text)
        except ValueError:
            continue
        for device in devices:
            key = node, device.type, device.minor
            taken[key].append((name, quantity_texts(dict(device.resources))))
    return taken


def _key(node: str, device: Json) -> DeviceKey:
    return node, str(device.get("type", "")), int(device.get("minor") or 0)


def _name(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name", ""))
