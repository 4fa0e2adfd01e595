"""Orders in the cases a reader wants to see; all others: test_ordering_property.py."""

from collections.abc import Mapping

import pytest
from koord_host.knobs.forms import Value
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import ValueChange, order

QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
SHARES, IDLE, CPUS = "cpu.shares", "cpu.idle", "cpuset.cpus"
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"


def steps(
    *changes: tuple[str, str, Value, Value],
    present: Mapping[tuple[str, str], Value] | None = None,
    held: frozenset[Target] | None = frozenset(),
) -> list[tuple[str, str, Value]]:
    known = present or {}
    found = order(
        [ValueChange(Target(place, knob), old, new) for place, knob, old, new in changes],
        lambda target: known.get((target.place, target.knob)),
        held,
    )
    return [(*step.target, step.value) for step in found.steps]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Wider from the top, narrower from below, elsewhere by way of both.
        ([("a/b", CPUS, "0", "0-1"), ("a", CPUS, "0", "0-3")], "a 0-3, a/b 0-1"),
        ([("a", CPUS, "0-3", "0"), ("a/b", CPUS, "0-1", "0")], "a/b 0, a 0"),
        ([("a", CPUS, "0", "1"), ("a/b", CPUS, "0", "1")], "a 0-1, a/b 0-1, a/b 1, a 1"),
        ([("a/b", "memory.low", 0, 8192), ("a", "memory.low", 0, 8192)], "a 8192, a/b 8192"),
        # The rest comes last in a stated order.
        (
            [("b", "oom_score_adj", 0, 5), ("", "cpu.bvt_warp_ns", 0, 1), ("b", CPUS, "0", "1")],
            "b 0-1, b 1,  1, b 5",
        ),
    ],
)
def test_groups(changes: list[tuple[str, str, Value, Value]], expected: str) -> None:
    assert ", ".join(f"{place} {value}" for place, _, value in steps(*changes)) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((QUOTA, 50_000, 20_000), (PERIOD, 100_000, 200_000), [PERIOD, QUOTA]),
        ((QUOTA, 20_000, 50_000), (PERIOD, 100_000, 50_000), [PERIOD, QUOTA]),
        ((QUOTA, -1, 50_000), (PERIOD, 100_000, 200_000), [PERIOD, QUOTA]),
        ((QUOTA, 50_000, -1), (PERIOD, 100_000, 200_000), [QUOTA, PERIOD]),
        ((QUOTA, 50_000, 25_000), (PERIOD, 100_000, 50_000), [QUOTA, PERIOD, QUOTA]),
        ((QUOTA, 50_000, 150_000), (PERIOD, 100_000, 250_000), [QUOTA, PERIOD, QUOTA]),
        ((QUOTA, 50_000, 20_000), (BURST, 50_000, 10_000), [BURST, QUOTA]),
        ((QUOTA, 20_000, 50_000), (BURST, 10_000, 50_000), [QUOTA, BURST]),
        ((LIMIT, 1, 5), (MEMSW, 2, 6), [MEMSW, LIMIT]),
        ((LIMIT, 5, 1), (MEMSW, 6, 2), [LIMIT, MEMSW]),
        ((LIMIT, 1, -1), (MEMSW, 2, -1), [MEMSW, LIMIT]),
        ((LIMIT, -1, 1), (MEMSW, -1, 2), [LIMIT, MEMSW]),
    ],
)
def test_knobs_of_a_group(
    first: tuple[str, int, int], second: tuple[str, int, int], expected: list[str]
) -> None:
    found = steps(("a", *first), ("a", *second))
    assert [knob for _, knob, _ in found] == expected
    if len(expected) == 3:
        assert found[0][2] == -1
    assert {knob: value for _, knob, value in found} == {one[0]: one[2] for one in (first, second)}


def test_a_period_alone_is_computed_with_the_quota_there_is() -> None:
    present: dict[tuple[str, str], Value] = {("a", QUOTA): 50_000, ("a/b", QUOTA): 50_000}
    longer = (("a", PERIOD, 100_000, 200_000), ("a/b", PERIOD, 100_000, 200_000))
    assert [place for place, *_ in steps(*longer, present=present)] == ["a/b", "a"]


def test_idle_before_shares_and_no_shares_when_idle() -> None:
    assert steps(("a", SHARES, 3, 512), ("a", IDLE, 1, 0)) == [("a", IDLE, 0), ("a", SHARES, 512)]
    target = Target("a", SHARES)
    for changes, idle in (
        ([ValueChange(target, 2, 512), ValueChange(Target("a", IDLE), 0, 1)], None),
        ([ValueChange(target, 2, 512)], 1),
    ):
        found = order(changes, lambda _, idle=idle: idle)
        assert found.dropped == ((target, "cpu.idle is 1: an idle group has no shares"),)
        assert target not in [step.target for step in found.steps]


@pytest.mark.parametrize(
    ("limit", "swap", "expected"),
    [
        ((1, 5), 1, [(MEMSW, 5), (LIMIT, 5)]),
        ((5, 1), 5, [(LIMIT, 1), (MEMSW, 1)]),
        ((1, 5), 3, [(MEMSW, 5), (LIMIT, 5)]),
        ((1, 5), 8, [(LIMIT, 5)]),
        ((5, 1), 8, [(LIMIT, 1)]),
        ((-1, 1), -1, [(LIMIT, 1)]),
        ((1, 5), 5, [(LIMIT, 5)]),
        ((1, 5), None, [(LIMIT, 5)]),
    ],
)
def test_a_limit_with_swap_that_nobody_wants(
    limit: tuple[int, int], swap: int | None, expected: list[tuple[str, int]]
) -> None:
    present: dict[tuple[str, str], Value] = {} if swap is None else {("a", MEMSW): swap}
    found = steps(("a", LIMIT, *limit), present=present)
    assert [one[1:] for one in found] == expected
    for held in (frozenset({Target("a", MEMSW)}), None):
        found = steps(("a", LIMIT, *limit), present=present, held=held)
        assert [one[1:] for one in found] == [(LIMIT, limit[1])]
