"""What is left of reserved CPUs and NUMA nodes, and what of a restricted reservation pods get."""

from __future__ import annotations

import pytest
from koord_scheduler.plugins.node_numa_resource.node_allocation import NUMAAllocation
from koord_scheduler.plugins.node_numa_resource.reserved_cpus import ReservedNUMA, what_is_left


def has(*cpus: int, **zones: int) -> NUMAAllocation:
    """CPUs, and memory of the NUMA nodes ``n0`` and so on."""
    amounts = tuple((int(node[1:]), (("memory", one),)) for node, one in zones.items())
    return NUMAAllocation(frozenset(cpus), zones=amounts)


def test_owners_take_of_what_is_reserved_and_not_of_more() -> None:
    owners = [has(0, n0=4), has(5, n1=3), has(n0=1)]
    assert what_is_left(has(0, 1, 2, n0=8), owners) == has(1, 2, n0=3)
    assert what_is_left(has(0, n0=2), owners) == has(n0=0)


def test_of_a_restricted_reservation_pods_get_nothing_else() -> None:
    kept = ReservedNUMA((has(1, 2, n0=8),), restricted=True)
    zones = {0: {"memory": 20, "cpu": 5}, 1: {"memory": 20, "cpu": 5}}
    kept.limit_zones(zones)
    assert zones == {0: {"memory": 8, "cpu": 5}, 1: {"memory": 0, "cpu": 5}}
    assert kept.limit_cpus(frozenset({2, 3})) == {2}


@pytest.mark.parametrize("kept", [(has(1, n0=8), False), (has(), True)])
def test_otherwise_they_get_anything(kept: tuple[NUMAAllocation, bool]) -> None:
    found, zones = ReservedNUMA(kept[:1], restricted=kept[1]), {0: {"memory": 20}}
    found.limit_zones(zones)
    assert (zones, found.limit_cpus(frozenset({7}))) == ({0: {"memory": 20}}, {7})
