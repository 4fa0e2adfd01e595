"""Memory bandwidth and interrupts, against the functions of Katalyst's agent."""

from __future__ import annotations

from typing import Any

from koord_model.interrupts import NetworkCard, QueueInterrupt
from koord_model.node_info import Processor
from koordlet.qos_manager.strategies.irq_affinity.exclusive import bounds, wanted_count
from koordlet.qos_manager.strategies.irq_affinity.fair import assign
from koordlet.qos_manager.strategies.resctrl.feedback import (
    flow_matrix,
    group_targets,
)

from tests.conformance.vectors import Fields, Vector, leaves, replay

STATES = {"stressful": "throttled", "fit": "held", "abundant": "eased"}


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    match given["kind"]:
        case "fair":
            return leaves({str(irq): cpu for irq, cpu in _fair(given).items()})
        case "count":
            return leaves(wanted_count(given["use"], given["total"]))
        case "quota":
            uses = {group: float(use) for group, use in given["uses"].items()}
            found = group_targets(float(given["capacity"]), uses)
            quotas = {group: int(target + 1e-6) for group, target in found.by_group.items()}
            return leaves({"quotas": quotas, "state": str(found.state)})
    ratios = given["ratios"]
    flows = flow_matrix(ratios, [1 - ratio for ratio in ratios])
    return leaves([round(float(part), 9) for part in flows.ravel()])


def _fair(given: Fields) -> dict[int, int]:
    cpus = [
        Processor(cpu, core, int(node), int(node), int(node))
        for node, cores in given["numas"].items()
        for core, ids in enumerate(cores, 1000 * int(node))
        for cpu in ids
    ]
    cards, first = [], 100
    for place, count in enumerate(given["nics"]):
        interrupts = tuple(QueueInterrupt(irq, 0) for irq in range(first, first + count))
        cards.append(NetworkCard(f"eth{place}", "", interrupts))
        first += count
    return dict(assign(cards, cpus))


def theirs(recorded: Any) -> dict[str, Any]:
    if isinstance(recorded, dict) and "state" in recorded:
        recorded = {**recorded, "state": STATES[recorded["state"]]}
    if isinstance(recorded, list):
        recorded = [round(part, 9) for part in recorded]
    return leaves(recorded)


def rests_between(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Between 5 and 20 % free groups go on as they do; Katalyst gives away all that is free."""
    group = field.removeprefix("quotas.")
    uses = vector.given.get("uses", {})
    return here.get("state") == there.get("state") == "held" and here[field] == uses[group]


def never_more_while_throttling(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """The reserve is all taken from the lowest groups; Katalyst counts what is free twice."""
    if here.get("state") != "throttled":
        return False
    capacity, uses = vector.given["capacity"], vector.given["uses"]
    free = capacity - sum(uses.values())
    return 0 < free < capacity * 0.05 and there[field] - here[field] <= free + 1


def the_least_at_least(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Below the fewest CPUs are the fewest; Katalyst's are the most."""
    given = vector.given
    least, most = bounds(given.get("total", 0))
    return given["kind"] == "count" and (here[field], there[field]) == (least, most)


def test_bandwidth_and_interrupts() -> None:
    replay(
        "katalyst_node",
        ours,
        theirs,
        (rests_between, never_more_while_throttling, the_least_at_least),
    )
