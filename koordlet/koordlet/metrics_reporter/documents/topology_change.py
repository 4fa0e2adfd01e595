"""Changes that make an API server's NodeResourceTopology as desired. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from koord_model.keys import ANNOTATION_CPU_NAMED_POOLS, LABEL_NUMA_RESERVATION
from koord_model.quantity import milli

Object = dict[str, Any]


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Object | None:
    """The merge patch that brings our part of the object in line; ``None`` where it is.

    Others add resources to our zones, and annotations and labels of their own: those stay.
    JSON and quantities that mean the same are the same, however they are spelled.
    """
    had, wanted = old.get("metadata") or {}, new["metadata"]
    metadata: Object = {}
    there = had.get("annotations") or {}
    written: Object = {
        key: value
        for key, value in wanted["annotations"].items()
        if key not in there or _meaning(there[key]) != _meaning(value)
    }
    # Only there while there are pools.
    gone = dict.fromkeys({ANNOTATION_CPU_NAMED_POOLS} & (there.keys() - wanted["annotations"]))
    if written or gone:
        metadata["annotations"] = written | gone
    labels = _labels(had.get("labels") or {}, wanted["labels"])
    if labels:
        metadata["labels"] = labels
    patch: Object = {}
    if old.get("topologyPolicies") != new["topologyPolicies"]:
        patch["topologyPolicies"] = new["topologyPolicies"]
    zones = _merged(old.get("zones") or [], new["zones"])
    if zones is not None:
        patch["zones"] = zones
    if metadata:
        patch["metadata"] = metadata
    return patch or None


def _labels(had: Mapping[str, str], wanted: Mapping[str, str]) -> Object:
    found: Object = {key: value for key, value in wanted.items() if had.get(key) != value}
    if LABEL_NUMA_RESERVATION in had and LABEL_NUMA_RESERVATION not in wanted:
        found[LABEL_NUMA_RESERVATION] = None
    return found


def _merged(old: list[Object], new: list[Object]) -> list[Object] | None:
    """Our zones with what others keep in them; ``None`` where nothing changes."""
    before = {zone.get("name"): zone for zone in old}
    zones = []
    same = [zone.get("name") for zone in old] == [zone["name"] for zone in new]
    for zone in new:
        had = before.get(zone["name"]) or {}
        there = {resource.get("name"): resource for resource in had.get("resources") or []}
        ours = {resource["name"]: resource for resource in zone["resources"]}
        same = same and had.get("type") == zone["type"]
        same = same and all(name in there and _equal(there[name], ours[name]) for name in ours)
        merged = sorted({**there, **ours}.items())
        zones.append({**had, **zone, "resources": [resource for _, resource in merged]})
    return None if same else zones


def _equal(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if two resources are the same amounts, maybe spelled otherwise."""
    try:
        return all(
            milli(str(had.get(key, ""))) == milli(wanted[key])
            for key in ("capacity", "allocatable", "available")
        )
    except ValueError:
        return False


@lru_cache(maxsize=64)
def _meaning(written: str) -> object:
    """The JSON in an annotation; what is none means itself."""
    try:
        return msgspec.json.decode(written)
    except (msgspec.MsgspecError, RecursionError):
        return written
