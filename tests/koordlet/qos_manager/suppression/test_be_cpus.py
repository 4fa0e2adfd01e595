"""Which CPUs best-effort pods run on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_model.node import SharedPool, Topology
from koord_model.node_info import Processor
from koord_model.qos import QoSClass
from koordlet.qos_manager.suppression.be_cpus import (
    LEAST_CPUS,
    CPUPools,
    choose_cpus,
    count_of,
    cpus_now,
    in_order,
    pools,
)
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.views import FakeCgroups, FakeLatest, cpu_info, pod_view, view

NONE: frozenset[int] = frozenset()
ALL16 = frozenset(range(16))


@pytest.mark.parametrize(
    ("cores", "before", "least", "deadband", "count"),
    [
        (5.2, 64, 0.0, 0.0, 6),
        (5.0000000001, 64, 0.0, 0.0, 5),
        (0.3, 64, 0.0, 0.0, 2),
        (-7.0, 64, 0.0, 0.0, 2),
        (40.0, 20, 0.0, 0.0, 27),
        (40.0, 0, 0.0, 0.0, 7),
        (80.0, 64, 0.0, 0.0, 64),
        (5.0, 20, 12.5, 0.0, 13),
        (40.0, 4, 12.5, 0.0, 13),
        # A few too many stay.
        (5.0, 6, 0.0, 0.25, 6),
        (4.76, 6, 0.0, 0.25, 6),
        (4.75, 6, 0.0, 0.25, 5),
        (4.75, 7, 0.0, 0.25, 5),
        (6.1, 6, 0.0, 0.25, 7),
        (1.9, 3, 0.0, 0.25, 3),
        (1.7, 3, 0.0, 0.25, 2),
        (70.0, 66, 0.0, 0.25, 64),
    ],
)
def test_count(cores: float, before: int, least: float, deadband: float, count: int) -> None:
    assert count_of(cores, before, 64, 10, least, deadband) == count
    assert count_of(0.2, 1, 1, 10) == 1, "a node with one CPU"


@given(st.floats(-10, 80), st.floats(0, 20), st.integers(0, 64), st.floats(0, 64), st.floats(0, 4))
def test_more_cores_are_never_fewer_cpus_and_no_more_than_the_dead_band_too_many(
    cores: float, more: float, before: int, least: float, deadband: float
) -> None:
    count = count_of(cores, before, 64, 10, least, deadband)
    assert count <= count_of(cores + more, before, 64, 10, least, deadband)
    assert count <= max(count_of(cores + deadband, 64, 64, 100, least), LEAST_CPUS)
    assert count_of(cores, count, 64, 10, least, deadband) in range(count, count + 8)


# 16 CPUs: cores 0-3 (0-3 and 8-11) in NUMA node 0, cores 4-7 in node 1.
@pytest.mark.parametrize(
    ("pool", "taken", "expected"),
    [
        (range(16), (), [0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15]),
        (range(16), (3, 5, 13), [11, 0, 8, 4, 12, 1, 9, 6, 14, 2, 10, 7, 15]),
        (range(16), (0, 4, 12), [8, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15]),
        ((0, 8, 1, 2, 10, 4, 5, 13), (), [0, 8, 5, 13, 2, 10, 4, 1]),
        ((3, 4, 5), (), [4, 3, 5]),
        ((), (), []),
    ],
)
def test_order(pool: list[int], taken: list[int], expected: list[int]) -> None:
    left = frozenset(pool) - frozenset(taken)
    assert in_order(cpu_info(16).online, left, frozenset(taken)) == expected


def test_without_hyper_threads_every_core_is_whole() -> None:
    cpus = cpu_info(8, 2, smt=False).online
    assert in_order(cpus, frozenset(range(8))) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_pods_that_lose_cpus_to_lse_get_others() -> None:
    pools = CPUPools(shared=ALL16 - {0, 8}, lse=frozenset((0, 8)))
    chosen = choose_cpus(4, pools, cpu_info(16).online, frozenset((0, 8, 4, 12)))
    assert chosen == {4, 12, 1, 9}


@pytest.mark.parametrize(
    ("above", "missing"), [(None, ()), ("", ()), ("1-10,99", (11, 12, 13, 14)), ("4-15", (2, 3))]
)
def test_pools_come_from_annotations_and_the_group_above_all_pods(
    above: str | None, missing: tuple[int, ...]
) -> None:
    pods = (
        pod_view("lse", qos=QoSClass.LSE, cpuset="0,1,77"),
        pod_view("lsr", qos=QoSClass.LSR, cpuset="1-3"),
        pod_view("ls", qos=QoSClass.LS, cpuset="4"),
        pod_view("be", qos=QoSClass.BE, cpuset="5"),
        pod_view("bad", qos=QoSClass.LSE, cpuset="x"),
    )
    values = {} if above is None else {("kubepods.slice", "cpuset.cpus"): above}
    found = pools(
        view(
            pods=pods,
            latest=FakeLatest({}, cpu_info(16, offline=[15])),
            cgroups=FakeCgroups(values),
            set_aside=ReservedCPUs(frozenset((0, 6, 7, 15, 99))),
        )
    )
    assert found == CPUPools(
        shared=frozenset((4, 5, *range(8, 15))).difference(missing),
        lsr=frozenset((2, 3)).difference(missing),
        lse=frozenset((0, 1)),
        aside=frozenset((6, 7, *missing)),
    )


def test_what_the_kubelet_or_a_plugin_gave_away_is_lsrs_but_not_an_lse_pods() -> None:
    lse = pod_view("lse", qos=QoSClass.LSE)
    given = {"lse": frozenset((4, 12)), "web": frozenset((5, 13))}
    seen = view(
        pods=(lse,), topology=Topology(exclusive=given), latest=FakeLatest({}, cpu_info(16))
    )
    assert pools(seen) == CPUPools(
        shared=cpuset.parse("0-3,6-11,14-15"), lsr=frozenset((5, 13)), lse=frozenset((4, 12))
    )


@pytest.mark.parametrize("topology", [None, Topology((SharedPool(0, "0-3"),))])
def test_without_exclusive_cpus_all_are_shared(topology: Topology | None) -> None:
    seen = view(topology=topology, latest=FakeLatest({}, cpu_info(16)))
    assert pools(seen) == CPUPools(shared=ALL16)


@pytest.mark.parametrize(
    ("text", "expected"), [("0-1", {0, 1}), ("", NONE), (None, NONE), (3, NONE), ("x", NONE)]
)
def test_a_groups_own_cpus(text: str | int | None, expected: frozenset[int]) -> None:
    values = {} if text is None else {("g", "cpuset.cpus"): text}
    assert cpus_now(view(cgroups=FakeCgroups(values)), "g") == expected


# ---- properties

CPUS = st.builds(
    lambda cpus, numa, smt: cpu_info(cpus, numa, smt).online,
    st.integers(1, 48),
    st.integers(1, 4),
    st.booleans(),
)


Machine = tuple[tuple[Processor, ...], CPUPools]


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """CPUs, each in one of four hands."""
    cpus = draw(CPUS)
    hands = draw(st.lists(st.integers(0, 3), min_size=len(cpus), max_size=len(cpus)))
    by_hand = [
        frozenset(one.id for one, hand in zip(cpus, hands, strict=True) if hand == number)
        for number in range(4)
    ]
    return cpus, CPUPools(*by_hand)


SETS = st.frozensets(st.integers(0, 60))


@given(machines(), st.integers(0, 64), SETS)
def test_as_much_as_may_be_shared_is_chosen_and_stays_chosen(
    machine: Machine, count: int, before: frozenset[int]
) -> None:
    cpus, owners = machine
    chosen = choose_cpus(count, owners, cpus, before)
    assert chosen <= owners.allowed
    assert len(chosen) == min(count, len(owners.allowed))
    if owners.allowed:
        assert len(chosen & owners.lsr) == len(chosen) * len(owners.lsr) // len(owners.allowed)
    assert choose_cpus(count, owners, cpus, chosen) == chosen
    for pool in (owners.lsr, owners.shared):
        kept, had = chosen & before & pool, before & pool
        assert len(kept) == min(len(had), len(chosen & pool))


@given(machines(), st.integers(0, 64), st.integers(0, 64), SETS)
def test_fewer_are_always_a_part_of_more(
    machine: Machine, one: int, other: int, before: frozenset[int]
) -> None:
    cpus, owners = machine
    few, many = sorted((one, other))
    assert choose_cpus(few, owners, cpus, before) <= choose_cpus(many, owners, cpus, before)


@given(machines(), SETS)
def test_the_order_has_every_cpu_once(machine: Machine, taken: frozenset[int]) -> None:
    cpus, owners = machine
    pool = owners.shared - taken
    assert sorted(in_order(cpus, pool, taken)) == sorted(pool)


@given(st.integers(1, 4), st.integers(1, 8), st.data())
def test_numa_nodes_give_evenly(numa: int, cores: int, data: st.DataObject) -> None:
    cpus = cpu_info(numa * cores * 2, numa).online
    count = data.draw(st.integers(0, len(cpus)))
    chosen = choose_cpus(count, CPUPools(frozenset(one.id for one in cpus)), cpus, NONE)
    given_by = [sum(one.id in chosen for one in cpus if one.node == node) for node in range(numa)]
    assert max(given_by) - min(given_by) <= 2
    halves = [
        core
        for core in {one.core for one in cpus}
        if sum(one.id in chosen for one in cpus if one.core == core) == 1
    ]
    assert len(halves) == count % 2
