"""What a NodeResourceTopology is to say of the batch resources in its zones. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord_model.keys import BATCH_CPU, BATCH_MEMORY

from koord_manager.reconcilers.node_resource.fleet import ZoneWish

Object = dict[str, Any]


def zones_patch(
    zones: Sequence[Mapping[str, Any]], wishes: Iterable[ZoneWish]
) -> dict[str, list[Object]] | None:
    """The JSON merge patch that has the zones say so; ``None`` where they do.

    A list can be patched as a whole only: the patch is good for the version that it is made of.
    Resources are in the order of their names, as Koordinator has them.
    """
    wished = {wish.name: wish for wish in wishes}
    changed = [_zone(zone, wished.get(str(zone.get("name")))) for zone in zones]
    return None if changed == [dict(zone) for zone in zones] else {"zones": changed}


def _zone(zone: Mapping[str, Any], wish: ZoneWish | None) -> Object:
    if wish is None:
        return dict(zone)
    kept = {str(one.get("name")): one for one in zone.get("resources") or ()}
    for name, amount in ((BATCH_CPU, str(wish.cpu)), (BATCH_MEMORY, str(wish.memory))):
        told = {"capacity": amount, "allocatable": amount, "available": amount}
        kept[name] = {**kept.get(name, {}), "name": name, **told}
    return {**zone, "resources": [kept[name] for name in sorted(kept)]}
