"""Canaries, against Katalyst's controller of custom configurations."""

from __future__ import annotations

from typing import Any

from koord_manager.slo_config.core.reach import first, read
from koord_model.fields import Fields

from tests.conformance import vectors
from tests.conformance.vectors import Vector, replay


def ours(vector: Vector) -> dict[str, Any]:
    nodes, given = vector.given["nodes"], vector.given["canary"]
    problems: list[str] = []
    fields = {} if given is None else {"canary": given}
    reach = read(Fields(fields, "entry", problems))
    if problems:
        return {"invalid": True}
    chosen = nodes if reach.canary is None else first("offload", nodes, reach.canary)
    return {"count": len(chosen), "nodes": sorted(chosen)}


def theirs(recorded: Any) -> dict[str, Any]:
    if "invalid" in recorded:
        return {"invalid": True}
    return {"count": len(recorded["canary"]), "nodes": recorded["canary"]}


def percent_are_rounded_up(
    vector: Vector, field: str, here: vectors.Fields, there: vectors.Fields
) -> bool:
    """10 % of five nodes are one, not none: a canary that nobody has tests nothing."""
    is_percent = isinstance(vector.given["canary"], str)
    return field == "count" and is_percent and here.get("count") == there.get("count", 0) + 1


def nodes_are_chosen_by_hash(
    vector: Vector, field: str, here: vectors.Fields, there: vectors.Fields
) -> bool:
    """By name the same nodes would try out everything."""
    known = set(vector.given["nodes"])
    return field == "nodes" and "nodes" in here and "nodes" in there and {*here["nodes"]} <= known


def beyond_all_or_none_is_refused(
    vector: Vector, _field: str, here: vectors.Fields, _there: vectors.Fields
) -> bool:
    """Katalyst takes -1 for none and 101% for all: here a typing error is one."""
    given = vector.given["canary"]
    amount = int(str(given).rstrip("%"))
    return "invalid" in here and (amount < 0 or (isinstance(given, str) and amount > 100))


def test_canaries() -> None:
    differences = (
        percent_are_rounded_up,
        nodes_are_chosen_by_hash,
        beyond_all_or_none_is_refused,
    )
    replay("katalyst_canary", ours, theirs, differences)
