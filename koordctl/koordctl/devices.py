"""``koordctl devices``: the devices of nodes, and which pods and reservations have them."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koord_model.keys import ANNOTATION_DEVICE_ALLOCATED

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.columns import table
from koordctl.render import clean
from koordctl.reservations import quantities

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]
DeviceKey = tuple[str, str, int]
"""Node, type and minor of a device."""

_HEADER = ("NODE", "TYPE", "MINOR", "HEALTHY", "NUMA", "PCIE", "HAS", "PODS", "RESERVATIONS")
_DOMAIN = "koordinator.sh/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl devices``."""
    parser.add_argument("node", nargs="?", default="", metavar="NODE", help="only this node")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """The devices of the cluster. Raises AskError."""
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import DEVICES, PODS, RESERVATIONS

    node = arguments.node

    async def question(api: Client) -> tuple[list[Any], list[Any], list[Any]]:
        if node:
            found = [await api.get(DEVICES, node)]
        else:
            found = await cluster_client.objects(api, DEVICES)
        on_node = f"spec.nodeName={node}" if node else "spec.nodeName!="
        pods = await cluster_client.objects(api, PODS, field_selector=on_node)
        try:
            reservations = await cluster_client.objects(api, RESERVATIONS)
        except NotFoundError:
            reservations = []
        return found, pods, reservations

    found, pods, reservations = cluster_client.ask_cluster(arguments.kubeconfig, question)
    shown = documents(found, pods, reservations)
    if arguments.json:
        return [json.dumps(shown, indent=2, ensure_ascii=False)]
    return lines(shown)


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


def lines(found: Sequence[Json]) -> Iterator[str]:
    """A line for each device."""
    shown = [_row(one) for one in found]
    if not shown:
        yield "No device found: koordlets report them with gates Accelerators and RDMADevices."
        return
    yield from table([_HEADER, *shown])


def _row(one: Json) -> tuple[str, ...]:
    place = one.get("topology") or {}
    holders = (
        ", ".join(f"{each[kind]} ({_amounts(each['resources'])})" for each in one[f"{kind}s"])
        for kind in ("pod", "reservation")
    )
    cells = (
        one["node"],
        one.get("type", UNKNOWN),
        one.get("minor", UNKNOWN),
        "yes" if one.get("health") else "no",
        place.get("nodeID", UNKNOWN),
        place.get("pcieID") or UNKNOWN,
        _amounts(one.get("resources")),
        *(each or UNKNOWN for each in holders),
    )
    return tuple(clean(str(cell)) for cell in cells)


def _amounts(given: Json | None) -> str:
    return quantities({name.removeprefix(_DOMAIN): one for name, one in (given or {}).items()})


def _devices(found: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    for one in sorted(found, key=_name):
        devices = (one.get("spec") or {}).get("devices") or ()
        for device in sorted(devices, key=lambda each: (each.get("type"), each.get("minor", 0))):
            yield _name(one), device


def _taken(
    objects: Iterable[Json], says_node: str, phases: Sequence[str]
) -> defaultdict[DeviceKey, list[tuple[str, Json]]]:
    """What objects in these phases have of each device, by what the scheduler wrote.

    What is unreadable is left out. ``says_node`` is the field in which they have ``nodeName``.
    """
    taken = defaultdict[DeviceKey, list[tuple[str, Json]]](list)
    for one in objects:
        metadata, node = one.get("metadata") or {}, (one.get(says_node) or {}).get("nodeName")
        text = (metadata.get("annotations") or {}).get(ANNOTATION_DEVICE_ALLOCATED)
        if not node or not text or (one.get("status") or {}).get("phase", "") not in phases:
            continue
        name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        try:
            for kind, listed in json.loads(text).items():
                for device in listed:
                    resources = dict(device.get("resources") or {})
                    taken[node, kind, int(device["minor"])].append((name, resources))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return taken


def _key(node: str, device: Json) -> DeviceKey:
    return node, str(device.get("type", "")), int(device.get("minor") or 0)


def _name(one: Json) -> str:
    return str((one.get("metadata") or {}).get("name", ""))
