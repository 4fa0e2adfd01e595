"""Real-time ratios of overcommitment, against the function of Katalyst's agent."""

from __future__ import annotations

from typing import Any

from koord_manager.noderesource.core.realtime_overcommit import realtime_ratio

from tests.conformance.vectors import Vector, leaves, replay


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    amounts = (given[name] for name in ("allocatable", "request", "used"))
    ratio = realtime_ratio(*amounts, given["target"] / 100, given["load"] / 100)
    return leaves({"ratio": round(ratio, 9)})


def theirs(recorded: Any) -> dict[str, Any]:
    return leaves({"ratio": round(recorded["ratio"], 9)})


def test_ratios_of_katalyst() -> None:
    replay("realtime_overcommit", ours, theirs, ())
