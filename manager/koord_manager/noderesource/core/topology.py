"""The batch resources in the zones of a NodeResourceTopology. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord_model.keys import BATCH_CPU, BATCH_MEMORY
from koord_model.quantity import quantity_texts

from koord_manager.noderesource.core.fleet import DesiredZone

Object = dict[str, Any]


def zones_patch(
    zones: Sequence[Mapping[str, Any]], desired: Iterable[DesiredZone]
) -> dict[str, list[Object]] | None:
    """The JSON merge patch for the zones; ``None`` if they have these amounts.

    A list can be patched as a whole only: the patch is good for the version that it is made of.
    Resources are in the order of their names, as Koordinator has them.
    """
    desired_by_name = {zone.name: zone for zone in desired}
    changed = [_zone(zone, desired_by_name.get(str(zone.get("name")))) for zone in zones]
    return None if changed == [dict(zone) for zone in zones] else {"zones": changed}


def _zone(zone: Mapping[str, Any], desired: DesiredZone | None) -> Object:
    if desired is None:
        return dict(zone)
    kept = {str(resource.get("name")): resource for resource in zone.get("resources") or ()}
    batch = quantity_texts({BATCH_CPU: desired.cpu, BATCH_MEMORY: desired.memory})
    for name, amount in batch.items():
        amounts = {"capacity": amount, "allocatable": amount, "available": amount}
        kept[name] = {**kept.get(name, {}), "name": name, **amounts}
    return {**zone, "resources": [kept[name] for name in sorted(kept)]}
