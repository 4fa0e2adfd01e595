from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.batch_resource import (
    NO_LIMIT,
    POLICIES,
    BatchInputs,
    Numbers,
    batch,
    times,
    within,
)

MOST = 1 << 53


@st.composite
def nodes(draw: st.DrawFn, most: int = 6) -> BatchInputs:
    number = draw(st.integers(1, most))

    def column(low: int, high: int) -> Numbers:
        values = st.lists(st.integers(low, high), min_size=2 * number, max_size=2 * number)
        return np.array(draw(values), np.int64).reshape(number, 2)

    ceiling = draw(st.sampled_from([10, 100_000, MOST]))
    amounts = [column(0, ceiling) for _ in range(6)]
    return BatchInputs(*amounts, column(0, 100), column(0, 2), column(NO_LIMIT, 100))


@given(nodes())
def test_a_node_alone_is_reckoned_as_among_others(given: BatchInputs) -> None:
    together = batch(given)
    for node in range(len(given.capacity)):
        alone = batch(BatchInputs(*(column[node : node + 1] for column in given)))
        for one, all_ in zip(alone, together, strict=True):
            assert (one[0] == all_[node]).all()


@given(nodes())
def test_never_negative_nor_more_than_there_is(given: BatchInputs) -> None:
    found = batch(given)
    assert (found.amount >= 0).all()
    assert (found.amount <= found.ceiling).all()
    assert (found.ceiling <= given.capacity).all()


@given(nodes(), st.integers(0, 100))
def test_never_less_when_more_may_be_reclaimed(given: BatchInputs, more: int) -> None:
    freer = given._replace(reclaim=np.minimum(given.reclaim + more, 100))
    assert (batch(freer).amount >= batch(given).amount).all()


@given(nodes(), st.integers(0, MOST), st.sampled_from(["used", "max_used_request", "system"]))
def test_never_more_when_more_is_used(given: BatchInputs, more: int, what: str) -> None:
    busier = given._replace(**{what: getattr(given, what) + more})
    assert (batch(busier).amount <= batch(given).amount).all()


def one(**more: Any) -> list[int]:
    columns = {
        "capacity": (10_000, 10_000),
        "reserved": (500, 500),
        "system": (300, 700),
        "used": (1000, 1000),
        "request": (4000, 4000),
        "max_used_request": (4500, 4500),
        "reclaim": (60, 65),
        "policy": (0, 0),
        "limit": (NO_LIMIT, NO_LIMIT),
    } | more
    given = BatchInputs(**{name: np.array([pair]) for name, pair in columns.items()})
    found: list[int] = batch(given).amount[0].tolist()
    return found


@pytest.mark.parametrize(
    ("given", "amounts"),
    [
        ({}, [4500, 4800]),
        ({"policy": (2, 2)}, [1000, 1300]),
        ({"policy": (0, 1)}, [4500, 2000]),
        ({"limit": (30, NO_LIMIT)}, [3000, 4800]),
        ({"used": (9000, 9000)}, [0, 0]),
        ({"reclaim": (100, 100)}, [8500, 8300]),
        ({"capacity": (0, 0)}, [0, 0]),
    ],
)
def test_by_hand(given: dict[str, Any], amounts: list[int]) -> None:
    assert POLICIES == ("usage", "request", "maxUsageRequest")
    assert one(**given) == amounts


def test_only_cpu_is_faster() -> None:
    amounts = np.array([[1001, 1001], [500, 500]])
    found = times(amounts, np.array([1.5, 1.0]))
    assert found.tolist() == [[1502, 1001], [500, 500]]
    assert times(amounts[:, None], np.array([2.0, 1.0])).tolist() == [[[2002, 1001]], [[500, 500]]]


@given(st.data())
def test_zones_sum_up_to_no_more_than_the_node_has(data: st.DataObject) -> None:
    number, zones = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    high = data.draw(st.sampled_from([5, 1000, MOST]))
    amount = st.integers(0, high)

    def column(size: int) -> Numbers:
        return np.array(data.draw(st.lists(amount, min_size=size, max_size=size)), np.int64)

    parts = column(number * zones * 2).reshape(number, zones, 2)
    node = column(number * 2).reshape(number, 2)
    cut = within(parts, node)
    assert (cut >= 0).all()
    assert (cut <= parts).all()
    assert (cut.sum(axis=1) <= node).all()
    fits = (parts.sum(axis=1) <= node)[:, None, :]
    assert (np.where(fits, parts, cut) == cut).all()


def test_zones_are_cut_in_proportion() -> None:
    parts = np.array([[[300, 10], [100, 20]]])
    assert within(parts, np.array([[200, 100]])).tolist() == [[[150, 10], [50, 20]]]
