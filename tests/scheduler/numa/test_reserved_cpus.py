"""What is left of reserved CPUs and NUMA nodes, and what of a restricted reservation pods get."""

from __future__ import annotations

import pytest
from koord_scheduler.numa.node_allocation import NUMAAllocation
from koord_scheduler.numa.reserved_cpus import ReservedNUMA, what_is_left


def has(*cpus: int, **zones: int) -> NUMAAllocation:
    """CPUs, and memory of the NUMA nodes ``n0`` and so on."""
    amounts = tuple((int(node[1:]), (("memory", one),)) for node, one in zones.items())
    return NUMAAllocation(frozenset(cpus), zones=amounts)


def test_owners_take_of_what_is_reserved_and_not_of_more() -> None:
    owners = [has(0, n0=4), has(5, n1=3), has(n0=1)]
    assert what_is_left(has(0, 1, 2, n0=8), owners) == has(1, 2, n0=3)
    assert what_is_left(has(0, n0=2), owners) == has(n0=0)


@pytest.mark.parametrize(
    ("found", "allowed"),
    [
        (has(1, 2, n0=8), True),
        (has(1), True),
        (has(), True),
        (has(1, 3), False),
        (has(1, n0=9), False),
        (has(1, n1=1), False),
    ],
)
def test_of_a_restricted_reservation_pods_get_nothing_else(
    found: NUMAAllocation, allowed: bool
) -> None:
    kept = has(1, 2, n0=8)
    assert ReservedNUMA((kept,), restricted=True).allows(found) is allowed
    assert ReservedNUMA((kept,)).allows(found)


@pytest.mark.parametrize("kept", [has(1), has(n0=8)])
def test_of_what_is_not_reserved_they_get_anything(kept: NUMAAllocation) -> None:
    found = has(7) if not kept.cpus else has(1, n1=5)
    assert ReservedNUMA((kept,), restricted=True).allows(found)
