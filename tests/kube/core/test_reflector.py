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


Did = Callable[[Reflector], object]


@pytest.mark.parametrize(
    ("did", "step"),
    [
        pytest.param(lambda one: one.ended(300, 50), ReflectorStep(WATCH), id="clean end"),
        pytest.param(lambda one: one.ended(300, 111), ReflectorStep(STREAM), id="time to list"),
        pytest.param(lambda one: one.ended(0.5, 50), ReflectorStep(WATCH, 1), id="ended at once"),
        pytest.param(lambda one: one.failed(410), ReflectorStep(LIST), id="gone"),
        pytest.param(lambda one: one.failed(429), ReflectorStep(WATCH, 1), id="too many requests"),
        pytest.param(lambda one: one.failed(429, 7), ReflectorStep(WATCH, 8), id="retry after"),
        pytest.param(lambda one: one.failed(401), ReflectorStep(WATCH, 1), id="unauthorized"),
        pytest.param(lambda one: one.failed(403), ReflectorStep(WATCH, 1), id="forbidden"),
        pytest.param(lambda one: one.failed(404), ReflectorStep(LIST, 1), id="kind is gone"),
        pytest.param(lambda one: one.failed(500), ReflectorStep(WATCH, 1), id="broken"),
        pytest.param(lambda one: one.failed(503), ReflectorStep(WATCH, 1), id="unavailable"),
        pytest.param(lambda one: one.failed(504), ReflectorStep(LIST, 1), id="future version"),
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
    reflector = fresh()
    assert reflector.failed(status) == ReflectorStep(LIST)
    assert reflector.failed(status) == ReflectorStep(LIST, 1)
    assert reflector.listed("5", now=0.0) == ReflectorStep(WATCH)
    # Only a failed list by a watch says so.
    assert reflector.failed(410) == ReflectorStep(LIST, 2)
    reflector = fresh()
    reflector.listed("5", now=0.0)
    assert reflector.failed(status) == ReflectorStep(WATCH, 1)
    assert reflector.failed(410).action is STREAM


class TestVersionsOfLists:
    """What a list may not be older than."""

    def test_at_first_anything_in_pages_and_the_newest_by_a_watch(self) -> None:
        assert (fresh().list_version, paged().list_version) == ("", "0")

    @pytest.mark.parametrize("make", [fresh, paged])
    @pytest.mark.parametrize("status", [410, 504])
    def test_never_older_than_what_is_known(
        self, make: Callable[[], Reflector], status: int
    ) -> None:
        reflector = make()
        reflector.listed("5", 0.0)
        for version, known in (("7", "7"), ("", "7")):
            reflector.observed(version)
            assert reflector.version == known
        reflector.failed(410)
        assert reflector.list_version == "7"
        reflector.failed(status)
        assert reflector.list_version == "", "the newest, where that one cannot be had"
        reflector.listed("9", 0.0)
        reflector.failed(410)
        assert reflector.list_version == "9"

    @pytest.mark.parametrize(("make", "version"), [(fresh, "7"), (paged, "")])
    def test_that_is_wanted(self, make: Callable[[], Reflector], version: str) -> None:
        """Of a server with an old etcd the newest: its cache stays behind for a quiet kind."""
        reflector = make()
        reflector.listed("5", 0.0)
        reflector.want("7")
        assert reflector.list_version == version
        reflector.listed("9", 0.0)
        reflector.failed(410)
        assert reflector.list_version == "9"

    @pytest.mark.parametrize(("make", "version"), [(listed, ""), (paged, "0")])
    def test_after_long_problem(self, make: Callable[[], Reflector], version: str) -> None:
        """What is known may be of a server that is no more; who knows nothing spares etcd."""
        reflector = make()
        for _ in range(5):
            reflector.failed(0)
        assert reflector.list_version == version


@pytest.mark.parametrize(
    ("make", "status", "actions"),
    [
        pytest.param(fresh, 0, [STREAM] * 4 + [LIST] * 2, id="option is ignored"),
        pytest.param(listed, 400, [WATCH] * 4 + [LIST], id="version is refused"),
    ],
)
def test_what_is_tried_after_many_failures(
    make: Callable[[], Reflector], status: int, actions: list[ReflectorAction]
) -> None:
    reflector = make()
    assert [reflector.failed(status).action for _ in actions] == actions


def test_waits_double_up_to_the_cap_and_are_cut_by_chance() -> None:
    reflector = fresh()
    assert [reflector.failed(503).wait for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [fresh(chance).failed(503).wait for chance in (0.0, 0.25, 1.0)] == [0, 0.25, 1]


@pytest.mark.parametrize(
    ("did", "wait"),
    [
        pytest.param(lambda one: one.observed("6"), 1, id="something new"),
        pytest.param(lambda one: one.observed("5"), 2, id="it only opens"),
        pytest.param(lambda one: one.listed("5", 0.0), 2, id="the same list"),
        pytest.param(lambda one: one.ended(300, 50), 1, id="it lasted"),
    ],
)
def test_what_ends_a_row_of_failures(did: Did, wait: float) -> None:
    reflector = listed()
    reflector.failed(0)
    did(reflector)
    assert reflector.failed(0).wait == wait


def test_a_short_watch_with_something_in_it_is_fine() -> None:
    reflector = listed()
    reflector.observed("6")
    assert reflector.ended(0.1, 1) == ReflectorStep(WATCH)
    assert reflector.ended(0.1, 2) == ReflectorStep(WATCH, 1)


def test_gone_again_and_again_is_no_loop_without_pause() -> None:
    reflector = listed()
    waits = []
    for _ in range(3):
        waits.append(reflector.failed(410).wait)
        reflector.listed("5", 0.0)
    assert waits == [0, 2, 4]


def test_lists_of_many_nodes_come_apart() -> None:
    assert [listed(chance).ended(300, 91).action for chance in (0.0, 1.0)] == [STREAM, WATCH]


@given(
    st.lists(st.tuples(st.sampled_from([0, 400, 401, 410, 429, 500]), st.floats(0, 300))),
    st.floats(0, 1),
)
def test_no_wait_is_longer_than_the_server_asks_and_the_cap(
    failures: list[tuple[int, float]], chance: float
) -> None:
    reflector = listed(chance)
    for status, asked in failures:
        assert 0 <= reflector.failed(status, asked).wait <= 300 + PACE.cap
