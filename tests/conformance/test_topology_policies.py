"""Merged NUMA hints of resource plugins, against Katalyst's topology policies."""

from __future__ import annotations

from typing import Any

from koord_model.allocation import TopologyHint
from koordlet.resource_plugins.core.hints import TopologyPolicy, merge_hints

from tests.conformance.vectors import Fields, Object, Vector, replay

ALIGNED = ("cpu", "memory")
Hints = dict[str, TopologyHint]


def ours(vector: Vector) -> Fields:
    hints = {
        name: None if given is None else [TopologyHint(*hint) for hint in given]
        for name, given in vector.given["hints"].items()
    }
    nodes = (1 << vector.given["nodes"]) - 1
    found = merge_hints(TopologyPolicy(vector.given["policy"]), nodes, hints, ALIGNED)
    return {"admitted": found.admitted, "merged": found.hints}


def theirs(recorded: Object) -> Fields:
    merged = {name: TopologyHint(*hint) for name, hint in recorded["merged"].items()}
    return {**recorded, "merged": merged}


def most_preferred_come_first(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Numeric: there a permutation of fewer nodes replaces one that more resources prefer.

    So their result depends on the order of hints, and of two that are equally good they have the
    first. Ours is at least as good by their rules: most preferred, then fewest nodes.
    """
    if vector.given["policy"] != "numeric" or field != "merged":
        return False
    mine = here["merged"]
    return _is_numeric(mine) and _rank(mine) <= _rank(there["merged"])


def _is_numeric(found: Hints) -> bool:
    aligned = [found[name] for name in ALIGNED if name in found]
    masks = [hint.nodes for hint in found.values() if hint.nodes is not None]
    nested = all(one & other in (one, other) for one in masks for other in masks)
    equal = len({hint.nodes for hint in aligned} - {None}) <= 1
    return nested and equal and (not aligned or any(hint.preferred for hint in aligned))


def _rank(found: Hints) -> Any:
    others = [hint for name, hint in found.items() if name not in ALIGNED]
    most = max(((hint.nodes or 0).bit_count() for hint in found.values()), default=0)
    return -sum(hint.preferred for hint in others), most


def test_topology_policies() -> None:
    replay("topology_policies", ours, theirs, (most_preferred_come_first,))
