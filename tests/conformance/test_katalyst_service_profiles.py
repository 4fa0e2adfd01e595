"""Profiles of services: baselines, targets and choice, against Katalyst's functions."""

from __future__ import annotations

from typing import Any

from koord_manager.service_profiles.core import document
from koord_manager.service_profiles.core.baseline import baseline
from koord_manager.service_profiles.core.document import ProfileSource
from koord_manager.service_profiles.core.index import ServiceIndex, WorkloadLookup
from koord_manager.service_profiles.core.indicators import INDICATORS
from koord_manager.service_profiles.core.objects import ProfiledWorkload, ServicePod

from tests.conformance import vectors
from tests.conformance.vectors import Vector, replay

REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    match given["kind"]:
        case "baseline":
            pods = [
                ServicePod("shop", pod["name"], created=pod["created"]) for pod in given["pods"]
            ]
            return {"pods": sorted(baseline(pods, given["percent"]))}
        case "targets":
            return _targets(given["system"])
    return {"outcome": _chosen(given["workload"], given["spds"]), "outcomes": ()}


def _targets(system: list[Any]) -> dict[str, Any]:
    spec = {"targetRef": REF, "systemIndicator": system}
    found = document.read({"spec": spec}, ProfileSource.DESCRIPTOR)
    by_name = {word: found.targets.get(indicator) for word, indicator in INDICATORS.items()}
    return {word: upper for word, upper in by_name.items() if upper is not None}


def _chosen(workload: Any, spds: list[Any]) -> str:
    """The profile in force for a workload, where just this one exists."""
    about = workload["apiVersion"], workload["kind"], workload["metadata"]["name"]

    def look_up(kind: Any, _namespace: str, name: str) -> ProfiledWorkload | None:
        return ProfiledWorkload() if (*kind, name) == about else None

    index = ServiceIndex(WorkloadLookup(look_up, lambda _kind, _namespace: ""))
    for spd in spds:
        meta = {"namespace": "shop", "name": spd["name"]}
        read = document.read(
            {"metadata": meta, "spec": {"targetRef": spd["ref"]}}, ProfileSource.DESCRIPTOR
        )
        index.profile_changed((read.source.value, read.key), read)
    index.refresh()
    in_force = [read.name for place, read in index.documents.items() if not index.reason(place)]
    assert len(in_force) <= 1
    return in_force[0] if in_force else ""


def theirs(recorded: Any) -> dict[str, Any]:
    if "outcomes" in recorded:
        [first, *others] = recorded["outcomes"]
        return {"outcome": first, "outcomes": tuple(others)}
    if "targets" in recorded:
        uppers = {word: bounds.get("upper") for word, bounds in recorded["targets"].items()}
        return {
            word: round(upper, 6)  # a float32 there
            for word, upper in uppers.items()
            if word in INDICATORS and upper
        }
    return dict(recorded)


def a_bad_indicator_costs_itself_alone(
    vector: Vector, field: str, here: vectors.Fields, there: vectors.Fields
) -> bool:
    """Katalyst takes none of a descriptor then; here the first of each name counts."""
    if "error" not in there:
        return False
    if field == "error":
        return True
    first = next(indicator for indicator in vector.given["system"] if indicator["name"] == field)
    return {"indicatorLevel": "UpperBound", "value": here[field]} in first["indicators"]


def bounds_are_not_below_zero(
    vector: Vector, field: str, here: vectors.Fields, _there: vectors.Fields
) -> bool:
    """Nothing that is measured is."""
    bounds = (
        indicator["indicators"]
        for indicator in vector.given.get("system", ())
        if indicator["name"] == field
    )
    return field not in here and any(bound["value"] < 0 for listed in bounds for bound in listed)


def the_version_of_a_workload_counts(
    vector: Vector, field: str, here: vectors.Fields, there: vectors.Fields
) -> bool:
    """Kind and name alone say nothing: another group may have both."""
    version = vector.given.get("workload", {}).get("apiVersion")
    refs = {spd["name"]: spd["ref"]["apiVersion"] for spd in vector.given.get("spds", ())}
    others = [] if field == "outcome" else there.get("outcomes", ())
    chosen = [there.get("outcome"), *others]
    return field.startswith("outcome") and all(refs.get(name) != version for name in chosen)


def chance_chooses_nothing(
    _vector: Vector, field: str, here: vectors.Fields, there: vectors.Fields
) -> bool:
    """Of several for one workload Katalyst takes any; here always the same one of these."""
    many = {there.get("outcome"), *there.get("outcomes", ())}
    return field.startswith("outcome") and len(many) > 1 and here["outcome"] in many


def test_profiles_of_services() -> None:
    differences = (
        a_bad_indicator_costs_itself_alone,
        bounds_are_not_below_zero,
        the_version_of_a_workload_counts,
        chance_chooses_nothing,
    )
    replay("katalyst_service_profiles", ours, theirs, differences)
