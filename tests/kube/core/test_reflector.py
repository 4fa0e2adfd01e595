"""The table of what an informer does after what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.reflector import Reflector, ReflectorAction, ReflectorStep, ReflectorTiming

STREAM, LIST, WATCH = ReflectorAction.STREAM, ReflectorAction.LIST, ReflectorAction.WATCH
PACE = ReflectorTiming(first=1.0, cap=30.0, relist=100.0)


def fresh(chance: float = 1.0) -> Reflector:
    return Reflector(lambda: chance, PACE)


def paged(chance: float = 1.0) -> Reflector:
    """One whose server does not list by watches."""
    made = fresh(chance)
    assert made.failed(422) == ReflectorStep(LIST)
    return made


def listed(chance: float = 1.0) -> Reflector:
    made = paged(chance)
    assert made.listed("5", now=0.0) == ReflectorStep(WATCH)
    return made


Did = Callable[[Reflector], ReflectorStep]


@pytest.mark.parametrize(
    ("did", "step"),
    [
        pytest.param(lambda one: one.ended(300, 50), ReflectorStep(WATCH), id="clean end"),
        pytest.param(
            lambda one: one.ended(300, 111), ReflectorStep(STREAM), id="clean end, time to list"
        ),
        pytest.param(lambda one: one.ended(0.5, 50), ReflectorStep(WATCH, 1), id="ended at once"),
        pytest.param(lambda one: one.failed(410), ReflectorStep(LIST), id="gone"),
        pytest.param(lambda one: one.failed(429), ReflectorStep(WATCH, 1), id="too many requests"),
        pytest.param(lambda one: one.failed(429, 7), ReflectorStep(WATCH, 8), id="retry after"),
        pytest.param(lambda one: one.failed(401), ReflectorStep(WATCH, 1), id="unauthorized"),
        pytest.param(lambda one: one.failed(403), ReflectorStep(WATCH, 1), id="forbidden"),
        pytest.param(lambda one: one.failed(404), ReflectorStep(LIST, 1), id="kind is gone"),
        pytest.param(lambda one: one.failed(500), ReflectorStep(WATCH, 1), id="broken"),
        pytest.param(lambda one: one.failed(503), ReflectorStep(WATCH, 1), id="unavailable"),
        pytest.param(
            lambda one: one.failed(504), ReflectorStep(LIST, 1), id="version of the future"
        ),
        pytest.param(lambda one: one.failed(0), ReflectorStep(WATCH, 1), id="cut, or timeout"),
    ],
)
def test_while_watching(did: Did, step: ReflectorStep) -> None:
    assert did(listed()) == step


@pytest.mark.parametrize("status", [0, 401, 403, 404, 429, 503, 504])
def test_while_listing_it_lists_again(status: int) -> None:
    assert fresh().failed(status) == ReflectorStep(STREAM, 1)
    assert paged().failed(status) == ReflectorStep(LIST, 1)


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_server_that_does_not_list_by_watches_is_asked_for_pages(status: int) -> None:
    watching = fresh()
    assert watching.failed(status) == ReflectorStep(LIST)
    assert watching.failed(status) == ReflectorStep(LIST, 1)
    assert watching.listed("5", now=0.0) == ReflectorStep(WATCH)
    # Only what comes of asking for a list by a watch says so.
    assert watching.failed(410) == ReflectorStep(LIST, 2)
    watching = fresh()
    watching.listed("5", now=0.0)
    assert watching.failed(status) == ReflectorStep(WATCH, 1)
    assert watching.failed(410).action is STREAM


def test_a_server_that_passes_over_what_it_does_not_know_is_asked_for_pages() -> None:
    watching = fresh()
    assert [watching.failed(0).action for _ in range(6)] == [STREAM] * 4 + [LIST] * 2


class TestVersionsOfLists:
    """What a list may not be older than."""

    def test_at_first_anything_in_pages_and_the_newest_by_a_watch(self) -> None:
        assert (fresh().list_version, paged().list_version) == ("", "0")

    @pytest.mark.parametrize("make", [fresh, paged])
    def test_never_what_is_known(self, make: Callable[[], Reflector]) -> None:
        watching = make()
        watching.listed("5", 0.0)
        watching.heard("7")
        watching.failed(410)
        assert watching.list_version == "7"

    @pytest.mark.parametrize("make", [fresh, paged])
    @pytest.mark.parametrize("status", [410, 504])
    def test_the_newest_where_that_cannot_be_had(
        self, make: Callable[[], Reflector], status: int
    ) -> None:
        watching = make()
        watching.listed("5", 0.0)
        watching.failed(410)
        watching.failed(status)
        assert watching.list_version == ""
        watching.listed("9", 0.0)
        watching.failed(410)
        assert watching.list_version == "9"

    def test_the_newest_where_what_is_known_is_doubted(self) -> None:
        watching = listed()
        for _ in range(5):
            watching.failed(0)
        assert watching.list_version == ""

    def test_who_knows_nothing_does_not_ask_etcd_for_waiting_long(self) -> None:
        watching = paged()
        for _ in range(5):
            watching.failed(0)
        assert watching.list_version == "0"


def test_events_and_bookmarks_move_the_version_on() -> None:
    watching = listed()
    assert watching.version == "5"
    watching.heard("9")
    assert watching.version == "9"
    watching.heard("")
    assert watching.version == "9"


def test_waits_double_up_to_the_cap() -> None:
    watching = fresh()
    assert [watching.failed(503).wait for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_waits_are_cut_by_chance_to_anything() -> None:
    assert [fresh(chance).failed(503).wait for chance in (0.0, 0.25, 1.0)] == [0, 0.25, 1]


def test_what_moves_ends_a_row_of_failures() -> None:
    watching = listed()
    watching.failed(500)
    watching.failed(500)
    watching.heard("6")
    assert watching.failed(500).wait == 1


@pytest.mark.parametrize("again", [lambda one: one.heard("5"), lambda one: one.listed("5", 0.0)])
def test_a_watch_that_only_opens_ends_none(again: Callable[[Reflector], object]) -> None:
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
    assert watching.ended(0.1, 1) == ReflectorStep(WATCH)
    assert watching.ended(0.1, 2) == ReflectorStep(WATCH, 1)


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
    assert early.ended(300, 91).action is STREAM
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
