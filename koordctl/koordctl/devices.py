"""``koordctl devices``: the GPUs and other devices of nodes, and which pods have them."""

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

_HEADER = ("NODE", "TYPE", "MINOR", "HEALTHY", "NUMA", "PCIE", "HAS", "PODS")
_DOMAIN = "koordinator.sh/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl devices``."""
    parser.add_argument("node", nargs="?", default="", metavar="NODE", help="only this node")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """The devices of the cluster. Raises AskError."""
    from koord_kube.protocol.resources import DEVICES, PODS

    node = arguments.node

    async def question(api: Client) -> tuple[list[Any], list[Any]]:
        if node:
            found = [await api.get(DEVICES, node)]
        else:
            found = await cluster_client.objects(api, DEVICES)
        on_node = f"spec.nodeName={node}" if node else "spec.nodeName!="
        return found, await cluster_client.objects(api, PODS, field_selector=on_node)

    found, pods = cluster_client.ask_cluster(arguments.kubeconfig, question)
    if arguments.json:
        return [json.dumps(documents(found, pods), indent=2, ensure_ascii=False)]
    return lines(found, pods)


def documents(found: Sequence[Json], pods: Iterable[Json]) -> list[Any]:
    """Each device with its node, and what pods have of it."""
    taken = _taken(pods)
    return [
        {"node": node, **device, "pods": taken.get(_key(node, device), [])}
        for node, device in _devices(found)
    ]


def lines(found: Sequence[Json], pods: Iterable[Json]) -> Iterator[str]:
    """A line for each device."""
    shown = [_row(one) for one in documents(found, pods)]
    if not shown:
        yield "No device found: koordlets report them with gates Accelerators and RDMADevices."
        return
    yield from table([_HEADER, *shown])


def _row(one: Json) -> tuple[str, ...]:
    place = one.get("topology") or {}
    pods = (f"{each['pod']} ({_amounts(each['resources'])})" for each in one["pods"])
    cells = (
        one["node"],
        one.get("type", UNKNOWN),
        one.get("minor", UNKNOWN),
        "yes" if one.get("health") else "no",
        place.get("nodeID", UNKNOWN),
        place.get("pcieID") or UNKNOWN,
        _amounts(one.get("resources")),
        ", ".join(pods) or UNKNOWN,
    )
    return tuple(clean(str(cell)) for cell in cells)


def _amounts(given: Json | None) -> str:
    return quantities({name.removeprefix(_DOMAIN): one for name, one in (given or {}).items()})


def _devices(found: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    for one in sorted(found, key=_name):
        devices = (one.get("spec") or {}).get("devices") or ()
        for device in sorted(devices, key=lambda each: (each.get("type"), each.get("minor", 0))):
            yield _name(one), device


def _taken(pods: Iterable[Json]) -> dict[DeviceKey, list[Any]]:
    """What pods have of each device, by what the scheduler wrote; without what is unreadable."""
    taken = defaultdict[DeviceKey, list[Any]](list)
    for one in pods:
        metadata, node = one.get("metadata") or {}, (one.get("spec") or {}).get("nodeName")
        text = (metadata.get("annotations") or {}).get(ANNOTATION_DEVICE_ALLOCATED)
        if not node or not text or (one.get("status") or {}).get("phase") in _ENDED:
            continue
        pod = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        try:
            for kind, listed in json.loads(text).items():
                for device in listed:
                    amounts = {"pod": pod, "resources": dict(device.get("resources") or {})}
                    taken[node, kind, int(device["minor"])].append(amounts)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return taken


_ENDED = ("Succeeded", "Failed")


def _key(node: str, device: Json) -> DeviceKey:
    return node, str(device.get("type", "")), int(device.get("minor") or 0)


def _name(one: Json) -> str:
    return str((one.get("metadata") or {}).get("name", ""))
