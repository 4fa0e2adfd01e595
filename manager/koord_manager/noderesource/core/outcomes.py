"""Reasons of amounts, in words and numbers. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from koord_model.decision import Decision, Term, shown
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY

from koord_manager.slo_config.core.colocation import (
    CalculatePolicy,
    ColocationStrategy,
    MidReclaimMode,
)

TIERS = ((BATCH_CPU, BATCH_MEMORY), (MID_CPU, MID_MEMORY))
"""The resources, in the order of arrays: by class, then CPU and memory."""

LONGEST = 256
"""Characters of the text on the Node."""


class ResourceOutcome(IntEnum):
    """Reason of an amount."""

    OFF = 0
    WAITING = 1
    MISSING = 2
    STALE = 3
    HELD = 4
    NOTHING = 5
    LIMITED = 6
    RISING = 7
    FALLING = 8
    LEFT = 9
    UNMEASURED = 10
    RECLAIMED = 11


def aspect(tier: int, resource: int) -> str:
    """A resource's short name: "batch-cpu"."""
    return TIERS[tier][resource].rpartition("/")[2]


def outcome_text(
    outcome: ResourceOutcome, tier: int, resource: int, strategy: ColocationStrategy
) -> str:
    """The outcome in a line that stays the same while nothing else is decided."""
    name, smoothing = aspect(tier, resource), strategy.smoothing
    step = f"{smoothing.step_seconds} s"
    age = f"{strategy.degrade_seconds / 60:g} min"
    bad = f"NodeMetric is missing or older than {age}"
    lines: Mapping[ResourceOutcome, str] = {
        ResourceOutcome.OFF: f"no {name}: co-location is not enabled on this node",
        ResourceOutcome.WAITING: (
            f"{name} stays as it is: nodes are given time to report to this manager"
        ),
        ResourceOutcome.MISSING: f"no {name}: there is no NodeMetric of this node",
        ResourceOutcome.UNMEASURED: f"no {name}: NodeMetric has no systemUsage yet",
        ResourceOutcome.RECLAIMED: (
            f"no {name}: Katalyst's agent offers the same as reclaimed resources; stop it first"
        ),
        ResourceOutcome.STALE: f"no {name}: NodeMetric is older than {age}",
        ResourceOutcome.HELD: f"{name} is held for {smoothing.hold_seconds} s at most: {bad}",
        ResourceOutcome.NOTHING: f"no {name} is left",
        ResourceOutcome.LIMITED: f"{name} is as much as the configuration allows",
        ResourceOutcome.RISING: f"{name} rises by {smoothing.rise_percent} % of capacity in {step}",
        ResourceOutcome.FALLING: (
            f"{name} falls by {smoothing.fall_percent} % of capacity in {step}"
        ),
        ResourceOutcome.LEFT: f"{name} is {_left(tier, resource, strategy)}",
    }
    return lines[outcome]


def _left(tier: int, resource: int, strategy: ColocationStrategy) -> str:
    if tier:
        static = strategy.mid_mode is MidReclaimMode.STATIC
        return "the configured share" if static else "what prod pods will hardly use"
    policy = strategy.memory_policy if resource else strategy.cpu_policy
    if resource == 0 and policy is CalculatePolicy.REQUEST:
        policy = CalculatePolicy.USAGE
    what = {
        CalculatePolicy.USAGE: "use",
        CalculatePolicy.REQUEST: "ask for",
        CalculatePolicy.MAX_USAGE_REQUEST: "use or ask for, whichever is more",
    }
    return f"what is left of what high-priority pods {what[policy]}"


def batch_decision(
    outcome: str, resource: int, terms: Mapping[str, int], ratio: float, named: str
) -> Decision:
    """``terms`` are by name: those of ``batch.BatchTerms``, their sources, and what is offered."""
    formula = "min(limit, capacity - margin - kept - high)"
    if resource == 0 and ratio > 1:
        formula = f"{formula} × ratio"
    if terms["third"]:
        formula = f"{formula} - third party"
    given = [
        *_terms(terms, resource, "limit", "capacity"),
        Term("reclaim", terms["reclaim"], "%"),
        *_terms(terms, resource, "margin", "system", "reserved", "kept"),
        *_terms(terms, resource, "used", "request", "high"),
        *((Term("ratio", ratio),) if resource == 0 and ratio > 1 else ()),
        *(_terms(terms, resource, "third") if terms["third"] else ()),
        *_terms(terms, resource, "offered"),
    ]
    return Decision(outcome, formula, tuple(given), aspect=named)


def mid_decision(
    outcome: str, resource: int, terms: Mapping[str, int], named: str, *, static: bool
) -> Decision:
    """``terms`` are by name: those of ``mid.MidTerms``, and what is offered."""
    formula = "min(limit, min(reclaimable, unused) + share)"
    names: tuple[str, ...] = ("limit", "reclaimable", "unused", "share")
    if static:
        formula, names = "min(limit, static)", ("limit", "static")
    if terms["third"]:
        formula, names = f"{formula} - third party", (*names, "third")
    return Decision(
        outcome, formula, tuple(_terms(terms, resource, *names, "offered")), aspect=named
    )


_TITLES = {"third": "third party", "used": "high-priority use", "request": "high-priority request"}


def _terms(terms: Mapping[str, int], resource: int, *names: str) -> list[Term]:
    return [Term(_TITLES.get(name, name), *amount(terms[name], resource)) for name in names]


def amount(number: int, resource: int) -> tuple[float | int | None, str]:
    """A number of arrays with its unit, for people; less than none is not offered."""
    if number < 0:
        return None, ""
    return (number, "bytes") if resource else (number / 1000, "cores")


def short(outcomes: Mapping[str, str], formulas: Mapping[str, Mapping[str, int]]) -> str:
    """The text on the Node: each amount with its terms, or why there is none."""
    parts = []
    for place, (name, terms) in enumerate(formulas.items()):
        if terms["offered"] < 0:
            return outcomes[name][:LONGEST]
        texts = {key: shown(*amount(terms[key], place)) for key in terms}
        arithmetic = f"{texts['capacity']} - {texts['margin']} margin - {texts['kept']} system"
        parts.append(f"{name} {texts['offered']} of {arithmetic} - {texts['high']} high-priority")
    return "; ".join(parts)[:LONGEST]
