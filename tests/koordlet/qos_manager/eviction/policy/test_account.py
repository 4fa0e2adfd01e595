"""The budget, cool times, and who is on the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.eviction.policy.account import (
    EvictionAccount,
    EvictionLimits,
    family,
    grace_seconds,
)

from tests.support.views import pod_view, pod_view_of, view

WHO = ("memory_evict", "MemoryEvict", "memory")
FREES = {WHO: 5.0}
START = 1000.0
LATER = START + 100.0


def account(per_minute: int = 10, *, pretended: bool = False) -> EvictionAccount:
    return EvictionAccount(
        EvictionLimits(per_minute, cpu_cool=20.0, cool=4.0), START, pretended=pretended
    )


def book(
    one: EvictionAccount, name: str, at: float, resource: str = "memory", **more: bool
) -> PodView:
    pod = pod_view(name)
    one.book(pod, resource, FREES, 30.0, at, **more)
    return pod


class TestBudget:
    def test_the_last_minute_counts(self) -> None:
        one = account(3)
        for at in (LATER, LATER + 1, LATER + 2):
            assert one.room(at).left > 0
            book(one, f"p{at}", at)
        assert one.room(LATER + 59.9).left == 0
        assert one.room(LATER + 60).left == 1

    def test_what_was_refused_never_was(self) -> None:
        one = account(1)
        book(one, "a", LATER)
        one.refused("a", "no", LATER)
        assert one.room(LATER).left == 1
        assert one.cooling("memory", LATER) == 0

    def test_what_nobody_knows_counts(self) -> None:
        one = account(1)
        book(one, "a", LATER)
        one.refused("a", "no answer", LATER, happened=True)
        assert (one.room(LATER).left, one.going) == (0, frozenset())
        assert one.cooling("memory", LATER) == 4

    def test_a_refusal_takes_back_only_the_last(self) -> None:
        one = account(5)
        book(one, "a", LATER)
        one.refused("a", "no answer", LATER, happened=True)
        book(one, "a", LATER + 30)
        one.refused("a", "no", LATER + 31)
        assert one.room(LATER + 31).left == 4

    def test_nor_does_it_take_back_another_s(self) -> None:
        one = account(5)
        book(one, "a", LATER)
        book(one, "b", LATER)
        one.refused("a", "no", LATER)
        assert one.room(LATER).left == 4
        assert one.going == {"b"}

    def test_none_is_none(self) -> None:
        assert account(0).room(LATER).left == 0


class TestCoolTime:
    def test_it_is_after_the_start_too(self) -> None:
        one = account()
        assert one.cooling("cpu", START) == 20
        assert one.cooling("memory", START + 1) == 3
        assert one.cooling("cpu", START + 20) == 0

    def test_each_kind_of_resource_has_its_own(self) -> None:
        one = account()
        book(one, "a", LATER, "kubernetes.io/batch-cpu")
        assert one.cooling("cpu", LATER + 1) == 19
        assert one.cooling("memory", LATER + 1) == 0
        assert one.cooling("io", LATER) == 0

    def test_a_jump_of_the_clock_back_ends_nothing(self) -> None:
        one = account()
        book(one, "a", LATER)
        assert one.room(LATER - 5).left == 9

    @pytest.mark.parametrize(
        ("resource", "kind"),
        [
            ("cpu", "cpu"),
            ("kubernetes.io/mid-cpu", "cpu"),
            ("kubernetes.io/batch-memory", "memory"),
            ("disk", "disk"),
        ],
    )
    def test_families(self, resource: str, kind: str) -> None:
        assert family(resource) == kind


class TestGoing:
    def test_it_is_expected_until_it_is_gone(self) -> None:
        one = account()
        pod = book(one, "a", LATER)
        assert one.observe(view(pods=(pod,), steady=LATER + 1)) == ()
        assert (one.going, one.expected) == ({"a"}, {"a": FREES})
        one.observe(view(steady=LATER + 2))
        assert one.going == frozenset()

    def test_what_it_freed_counts_until_it_has_been_measured(self) -> None:
        one = account()
        book(one, "a", LATER)
        # It took longer than any cool time, and what the node uses was measured before.
        one.observe(view(steady=LATER + 25))
        assert one.room(LATER + 25).going == {"a": FREES}
        one.observe(view(steady=LATER + 27.9))
        assert one.expected == {"a": FREES}
        one.observe(view(steady=LATER + 28))
        assert one.expected == {}

    @pytest.mark.parametrize("ours", [True, False])
    def test_nobody_waits_for_years_of_grace(self, *, ours: bool) -> None:
        one = account()
        pod = pod_view("a", grace_seconds=10**9, terminating=not ours)
        if ours:
            one.book(pod, "memory", FREES, grace_seconds(pod), LATER)
            one.accepted("a", LATER)
        one.observe(view(pods=(pod,), steady=LATER))
        one.observe(view(pods=(pod,), steady=LATER + 329))
        assert one.going == {"a"}
        one.observe(view(pods=(pod,), steady=LATER + 330))
        assert (one.going, one.expected) == (frozenset(), {})

    def test_a_list_that_is_not_whole_tells_of_nothing_gone(self) -> None:
        one = account()
        book(one, "a", LATER)
        one.observe(view(steady=LATER + 2, pods_known=False))
        assert one.going == {"a"}

    def test_its_patience_begins_when_the_eviction_does(self) -> None:
        one = account()
        pod = book(one, "a", LATER)
        one.accepted("a", LATER + 40)
        assert one.observe(view(pods=(pod,), steady=LATER + 99)) == ()
        [late] = one.observe(view(pods=(pod,), steady=LATER + 100))
        assert (late.pod, late.strategy, late.seconds, late.attempts) == (
            pod, "memory_evict", 100.0, 1,
        )  # fmt: skip
        assert one.going == frozenset()
        assert one.observe(view(pods=(pod,), steady=LATER + 101)) == ()

    def test_an_eviction_that_nobody_answers_for_is_given_up(self) -> None:
        one = account()
        pod = book(one, "a", LATER)
        assert one.observe(view(pods=(pod,), steady=LATER + 149)) == ()
        assert one.observe(view(pods=(pod,), steady=LATER + 150)) != ()

    def test_late_pods_are_tried_again_but_not_for_ever(self) -> None:
        one, at = account(), LATER
        for attempt in (1, 2, 3):
            pod = book(one, "a", at)
            one.accepted("a", at)
            at += 60
            [late] = one.observe(view(pods=(pod,), steady=at))
            assert late.attempts == attempt
            assert "a" in one.room(at).barred
            at += 50
        assert one.room(at + 1e6).barred == {"a": "has not gone after 3 evictions"}

    def test_pods_that_end_for_other_reasons_are_expected_too(self) -> None:
        one = account()
        ending = pod_view("b", terminating=True, grace_seconds=5)
        one.observe(view(pods=(ending, pod_view("c"), pod_view("d", listed=False)), steady=LATER))
        assert (one.going, one.expected) == ({"b"}, {"b": {}})
        [late] = one.observe(view(pods=(ending,), steady=LATER + 35))
        assert late.attempts == 0
        # It is stuck: expected once, not for ever.
        assert one.observe(view(pods=(ending,), steady=LATER + 36)) == ()
        assert one.going == frozenset()

    def test_a_pod_that_stays_is_gone_without_containers(self) -> None:
        one = account()
        pod = book(one, "a", LATER, stays=True)
        one.observe(view(pods=(pod,), steady=LATER + 1))
        assert one.going == {"a"}
        ended = pod_view_of(replace(pod.record, containers={}))
        one.observe(view(pods=(ended,), steady=LATER + 2))
        assert one.going == frozenset()

    def test_news_of_a_pod_that_is_gone_change_nothing(self) -> None:
        one = account()
        book(one, "a", LATER - 90)
        one.observe(view(steady=LATER))
        one.accepted("a", LATER)
        one.refused("a", "no", LATER)
        assert (one.going, one.room(LATER).left) == (frozenset(), 10)

    def test_what_is_late_and_not_there_is_nobody_s_business(self) -> None:
        one = account()
        book(one, "a", LATER)
        assert one.observe(view(steady=LATER + 500, pods_known=False)) == ()

    def test_what_is_pretended_is_forgotten(self) -> None:
        one = account(pretended=True)
        pod = book(one, "a", LATER)
        one.observe(view(pods=(pod,), steady=LATER + 59))
        assert (one.going, list(one.expected)) == (frozenset(), ["a"])
        assert one.observe(view(pods=(pod,), steady=LATER + 60)) == ()
        assert (dict(one.room(LATER + 60).barred), one.expected) == ({}, {})


class TestBars:
    def test_each_refusal_bars_longer(self) -> None:
        one, at = account(100), LATER
        for seconds in (10, 20, 40, 80, 160, 300, 300):
            book(one, "a", at)
            one.refused("a", "a budget forbids it", at)
            assert one.room(at + seconds - 0.1).barred == {"a": "a budget forbids it"}
            at += seconds
            assert one.room(at).barred == {}

    def test_what_the_server_asks_for_counts(self) -> None:
        one = account()
        book(one, "a", LATER)
        one.refused("a", "no", LATER, after=45)
        assert one.room(LATER + 44).barred == {"a": "no"}

    def test_a_pod_that_is_gone_is_forgotten(self) -> None:
        one = account()
        book(one, "a", LATER)
        one.refused("a", "no", LATER)
        one.observe(view(steady=LATER + 1))
        assert one.room(LATER + 1).barred == {}


class TestWarnings:
    def test_a_pod_is_told_once(self) -> None:
        one = account()
        pod = pod_view("a")
        assert one.warn("a", LATER)
        assert not one.warn("a", LATER + 30)
        one.observe(view(pods=(pod,), steady=LATER + 31))
        assert one.room(LATER + 31).warned == {"a": 31.0}

    def test_after_a_while_without_need_it_is_told_anew(self) -> None:
        one = account()
        one.warn("a", LATER)
        one.observe(view(pods=(pod_view("a"),), steady=LATER + 60))
        assert one.warn("a", LATER + 60)

    def test_once_evicted_it_is_forgotten(self) -> None:
        one = account()
        one.warn("a", LATER)
        book(one, "a", LATER)
        assert one.room(LATER).warned == {}


@pytest.mark.parametrize(("grace", "seconds"), [(None, 30.0), (0, 0.0), (90, 90.0)])
def test_the_grace_period_is_the_pod_s(grace: int | None, seconds: float) -> None:
    assert grace_seconds(pod_view(grace_seconds=grace)) == seconds


def test_of_a_pod_of_no_list_it_is_kubernetes_default() -> None:
    assert grace_seconds(pod_view(listed=False)) == 30.0


@given(
    st.integers(0, 4),
    st.lists(
        st.tuples(st.floats(0, 30), st.sampled_from(["ok", "refused", "unknown"])), max_size=30
    ),
)
def test_no_minute_has_more_than_the_budget(
    per_minute: int, tries: list[tuple[float, str]]
) -> None:
    one, at, times = account(per_minute), LATER, list[float]()
    for number, (pause, end) in enumerate(tries):
        at += pause
        one.observe(view(steady=at, pods_known=False))
        if one.room(at).left <= 0:
            continue
        name = f"p{number}"
        book(one, name, at)
        if end != "ok":
            one.refused(name, "no", at, happened=end == "unknown")
        if end != "refused":
            times.append(at)
    for end_ in times:
        assert sum(end_ - 60 < other <= end_ for other in times) <= per_minute
