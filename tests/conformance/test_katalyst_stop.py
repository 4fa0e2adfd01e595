"""When too many nodes are unhealthy, against Katalyst's agent health controller."""

from __future__ import annotations

from typing import Any

from koord_manager.node_backstop.core.faults import Examination, NodeFault
from koord_manager.node_backstop.core.stop import DisruptionStop
from koord_manager.slo_config.core.backstop import SILENT, BackstopRule

from tests.conformance import vectors
from tests.conformance.vectors import Vector, replay

HEALTHY = Examination((SILENT,), ())
UNHEALTHY = Examination((SILENT,), (NodeFault(SILENT, BackstopRule(), 900, 900, False),))


def ours(vector: Vector) -> dict[str, Any]:
    stop, unhealthy = DisruptionStop(), vector.given["unhealthy"]
    stop.observe([UNHEALTHY] * unhealthy + [HEALTHY] * (vector.given["nodes"] - unhealthy), 0)
    return {"halts": bool(stop.reason)}


def theirs(recorded: Any) -> dict[str, Any]:
    return {"halts": recorded["state"] != "Normal"}


def it_halts_at_a_fifth_of_all(
    vector: Vector, _field: str, here: vectors.Fields, _there: vectors.Fields
) -> bool:
    """Theirs divides by all and the unhealthy ones once more, and lets two go on anywhere."""
    nodes, unhealthy = vector.given["nodes"], vector.given["unhealthy"]
    return bool(here["halts"]) and unhealthy > 1 and unhealthy > nodes / 5


def test_the_stop() -> None:
    replay("katalyst_stop", ours, theirs, (it_halts_at_a_fifth_of_all,))
