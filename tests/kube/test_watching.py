"""The table of what an informer does after what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.watching import Action, Pace, Step, Watching

LIST, WATCH = Action.LIST, Action.WATCH
PACE = Pace(first=1.0, cap=30.0, relist=100.0)


def fresh(chance: float = 1.0) -> Watching:
    return Watching(lambda: chance, PACE)


def listed(chance: float = 1.0) -> Watching:
    made = fresh(chance)
    assert made.listed("5", now=0.0) == Step(WATCH)
    return made


Did = Callable[[Watching], Step]


@pytest.mark.parametrize(
    ("did", "step"),
    [
        pytest.param(lambda one: one.ended(300, 50), Step(WATCH), id="clean end"),
        pytest.param(lambda one: one.ended(300, 111), Step(LIST), id="clean end, time to list"),
        pytest.param(lambda one: one.ended(0.5, 50), Step(WATCH, 1), id="ended at once"),
        pytest.param(lambda one: one.failed(410), Step(LIST), id="gone"),
        pytest.param(lambda one: one.failed(429), Step(WATCH, 1), id="too many requests"),
        pytest.param(lambda one: one.failed(429, 7), Step(WATCH, 8), id="retry after"),
        pytest.param(lambda one: one.failed(401), Step(WATCH, 1), id="unauthorized"),
        pytest.param(lambda one: one.failed(403), Step(WATCH, 1), id="forbidden"),
        pytest.param(lambda one: one.failed(404), Step(LIST, 1), id="kind is gone"),
        pytest.param(lambda one: one.failed(500), Step(WATCH, 1), id="broken"),
        pytest.param(lambda one: one.failed(503), Step(WATCH, 1), id="unavailable"),
        pytest.param(lambda one: one.failed(504), Step(LIST, 1), id="version of the future"),
        pytest.param(lambda one: one.failed(0), Step(WATCH, 1), id="cut, or timeout"),
    ],
)
def test_while_watching(did: Did, step: Step) -> None:
    assert did(listed()) == step


@pytest.mark.parametrize("status", [0, 401, 403, 404, 429, 500, 503, 504])
def test_while_listing_it_lists_again(status: int) -> None:
    assert fresh().failed(status) == Step(LIST, 1)


def test_events_and_bookmarks_move_the_version_on() -> None:
    watching = listed()
    assert watching.version == "5"
    watching.heard("9")
    assert watching.version == "9"
    watching.heard("")
    assert watching.version == "9"


def test_waits_double_up_to_the_cap() -> None:
    watching = fresh()
    assert [watching.failed(500).wait for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_waits_are_cut_by_chance_to_anything() -> None:
    assert [fresh(chance).failed(500).wait for chance in (0.0, 0.25, 1.0)] == [0, 0.25, 1]


def test_what_moves_ends_a_row_of_failures() -> None:
    watching = listed()
    watching.failed(500)
    watching.failed(500)
    watching.heard("6")
    assert watching.failed(500).wait == 1


@pytest.mark.parametrize("again", [lambda one: one.heard("5"), lambda one: one.listed("5", 0.0)])
def test_a_watch_that_only_opens_ends_none(again: Callable[[Watching], object]) -> None:
    watching = listed()
    watching.failed(0)
    again(watching)
    assert watching.failed(0).wait == 2


def test_a_watch_that_lasted_ends_one() -> None:
    watching = listed()
    watching.failed(0)
    watching.ended(300, 50)
    assert watching.failed(0).wait == 1


def test_a_short_watch_with_something_in_it_is_fine() -> None:
    watching = listed()
    watching.heard("6")
    assert watching.ended(0.1, 1) == Step(WATCH)
    assert watching.ended(0.1, 2) == Step(WATCH, 1)


def test_gone_again_and_again_is_no_loop_without_pause() -> None:
    watching = listed()
    waits = []
    for _ in range(3):
        waits.append(watching.failed(410).wait)
        watching.listed("5", 0.0)
    assert waits == [0, 2, 4]


def test_a_version_that_nobody_accepts_is_given_up() -> None:
    watching = listed()
    assert [watching.failed(400).action for _ in range(5)] == [WATCH] * 4 + [LIST]


def test_lists_of_many_nodes_come_apart() -> None:
    early, late = listed(chance=0.0), listed(chance=1.0)
    assert early.ended(300, 91).action is LIST
    assert late.ended(300, 91).action is WATCH


@given(
    st.lists(st.tuples(st.sampled_from([0, 400, 401, 410, 429, 500]), st.floats(0, 300))),
    st.floats(0, 1),
)
def test_no_wait_is_longer_than_what_is_said(
    failures: list[tuple[int, float]], chance: float
) -> None:
    watching = listed(chance)
    for status, asked in failures:
        assert 0 <= watching.failed(status, asked).wait <= 300 + PACE.cap
