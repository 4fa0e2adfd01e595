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


def test_wider_from_the_top() -> None:
    assert steps(("a/b", CPUS, "0", "0-1"), ("a", CPUS, "0", "0-3")) == [
        ("a", CPUS, "0-3"),
        ("a/b", CPUS, "0-1"),
    ]


def test_narrower_from_below() -> None:
    assert steps(("a", CPUS, "0-3", "0"), ("a/b", CPUS, "0-1", "0")) == [
        ("a/b", CPUS, "0"),
        ("a", CPUS, "0"),
    ]


def test_elsewhere_by_way_of_both() -> None:
    assert steps(("a", CPUS, "0", "1"), ("a/b", CPUS, "0", "1")) == [
        ("a", CPUS, "0-1"),
        ("a/b", CPUS, "0-1"),
        ("a/b", CPUS, "1"),
        ("a", CPUS, "1"),
    ]


def test_protection_is_nested_too() -> None:
    assert steps(("a/b", "memory.low", 0, 8192), ("a", "memory.low", 0, 8192)) == [
        ("a", "memory.low", 8192),
        ("a/b", "memory.low", 8192),
    ]


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        ((50_000, 20_000), (100_000, 200_000), [PERIOD, QUOTA]),
        ((20_000, 50_000), (100_000, 50_000), [PERIOD, QUOTA]),
        ((-1, 50_000), (100_000, 200_000), [PERIOD, QUOTA]),
        ((50_000, -1), (100_000, 200_000), [QUOTA, PERIOD]),
        ((50_000, 25_000), (100_000, 50_000), [QUOTA, PERIOD, QUOTA]),
        ((50_000, 150_000), (100_000, 250_000), [QUOTA, PERIOD, QUOTA]),
    ],
)
def test_quota_and_period(
    quota: tuple[int, int], period: tuple[int, int], expected: list[str]
) -> None:
    found = steps(("a", QUOTA, *quota), ("a", PERIOD, *period))
    assert [knob for _, knob, _ in found] == expected
    if len(expected) == 3:
        assert found[0][2] == -1
    assert {knob: value for _, knob, value in found} == {QUOTA: quota[1], PERIOD: period[1]}


def test_a_period_alone_is_reckoned_with_the_quota_there_is() -> None:
    present: dict[tuple[str, str], Value] = {("a", QUOTA): 50_000, ("a/b", QUOTA): 50_000}
    longer = (("a", PERIOD, 100_000, 200_000), ("a/b", PERIOD, 100_000, 200_000))
    assert [place for place, *_ in steps(*longer, present=present)] == ["a/b", "a"]


def test_bursts() -> None:
    found = steps(("a", QUOTA, 50_000, 20_000), ("a", BURST, 50_000, 10_000))
    assert [knob for _, knob, _ in found] == [BURST, QUOTA]
    found = steps(("a", QUOTA, 20_000, 50_000), ("a", BURST, 10_000, 50_000))
    assert [knob for _, knob, _ in found] == [QUOTA, BURST]


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
        ((1, 5), (2, 6), [MEMSW, LIMIT]),
        ((5, 1), (6, 2), [LIMIT, MEMSW]),
        ((1, -1), (2, -1), [MEMSW, LIMIT]),
        ((-1, 1), (-1, 2), [LIMIT, MEMSW]),
    ],
)
def test_limits(limit: tuple[int, int], swap: tuple[int, int], expected: list[str]) -> None:
    found = steps(("a", LIMIT, *limit), ("a", MEMSW, *swap))
    assert [knob for _, knob, _ in found] == expected


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
def test_a_limit_with_swap_that_nobody_wishes(
    limit: tuple[int, int], swap: int | None, expected: list[tuple[str, int]]
) -> None:
    present: dict[tuple[str, str], Value] = {} if swap is None else {("a", MEMSW): swap}
    found = steps(("a", LIMIT, *limit), present=present)
    assert [one[1:] for one in found] == expected
    for held in (frozenset({Target("a", MEMSW)}), None):
        found = steps(("a", LIMIT, *limit), present=present, held=held)
        assert [one[1:] for one in found] == [(LIMIT, limit[1])]


def test_the_rest_comes_last_in_a_stated_order() -> None:
    found = steps(
        ("b", "oom_score_adj", 0, 5), ("", "cpu.bvt_warp_ns", 0, 1), ("b", CPUS, "0", "1")
    )
    assert [(place, knob) for place, knob, _ in found] == [
        ("b", CPUS),
        ("b", CPUS),
        ("", "cpu.bvt_warp_ns"),
        ("b", "oom_score_adj"),
    ]
