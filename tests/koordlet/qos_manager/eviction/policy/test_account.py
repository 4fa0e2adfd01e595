"""The budget, cool times, and which pods are on the way out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.eviction.policy.account import (
    EvictionAccount,
    EvictionLimits,
    OverduePod,
    grace_seconds,
)

from tests.support.views import pod_view, pod_view_of, view

FREES = {("memory_evict", "MemoryEvict", "memory"): 5.0}
START = 1000.0
LATER = START + 100.0


class Account(EvictionAccount):
    """Books pod "a" unless another is named; times are seconds after ``LATER``."""

    def __init__(self, per_minute: int = 10, *, pretended: bool = False) -> None:
        limits = EvictionLimits(per_minute, cpu_cool=20.0, cool=4.0)
        super().__init__(limits, START, pretended=pretended)

    def add(
        self, at: float = 0, name: str = "a", resource: str = "memory", **more: bool
    ) -> PodView:
        pod = pod_view(name)
        self.book(pod, resource, FREES, 30.0, LATER + at, **more)
        return pod

    def refuse(self, at: float = 0, name: str = "a", **more: float) -> None:
        self.refused(name, "no", LATER + at, **more)  # type: ignore[arg-type]

    def see(self, at: float, *pods: PodView, known: bool = True) -> tuple[OverduePod, ...]:
        return self.observe(view(pods=pods, steady=LATER + at, pods_known=known))

    def left(self, at: float = 0) -> int:
        return self.room(LATER + at).left

    def barred(self, at: float) -> dict[str, str]:
        return dict(self.room(LATER + at).barred)


class TestBudget:
    def test_the_last_minute_counts(self) -> None:
        one = Account(3)
        for at in (0, 1, 2):
            assert one.left(at) == 3 - at
            one.add(at, f"p{at}")
        assert (one.left(59.9), one.left(60)) == (0, 1)
        assert one.left(-5) == 0, "a jump of the clock back ends nothing"
        assert Account(0).left() == 0

    def test_a_refused_eviction_does_not_count_and_one_of_unknown_result_does(self) -> None:
        one = Account()
        one.add()
        one.refuse()
        assert (one.left(), one.cooling("memory", LATER)) == (10, 0)
        one.add()
        one.refuse(happened=True)
        assert (one.left(), one.going, one.cooling("memory", LATER)) == (9, frozenset(), 4)
        # A refusal takes back only the last, and of no other pod.
        one.add(30)
        one.add(30, "b")
        one.refuse(31)
        assert (one.left(31), one.going) == (8, {"b"})


class TestCoolTime:
    def test_each_kind_of_resource_has_its_own_from_the_start_on(self) -> None:
        one = Account()
        assert one.cooling("cpu", START) == 20
        assert one.cooling("memory", START + 1) == 3
        assert one.cooling("cpu", START + 20) == 0
        one.add(resource="kubernetes.io/batch-cpu")
        kinds = ("cpu", "kubernetes.io/mid-cpu", "memory", "io")
        assert [one.cooling(kind, LATER + 1) for kind in kinds] == [19, 19, 0, 0]
        one.add(resource="kubernetes.io/batch-memory")
        assert one.cooling("memory", LATER + 1) == 3


class TestGoing:
    def test_a_pod_is_expected_until_it_is_gone_and_what_it_freed_was_measured(self) -> None:
        one = Account()
        pod = one.add()
        assert one.see(1, pod) == ()
        assert (one.going, one.expected) == ({"a"}, {"a": FREES})
        one.see(2, known=False)
        assert one.going == {"a"}, "the list is not complete"
        one.see(25)
        assert (one.going, one.room(LATER + 25).going) == (frozenset(), {"a": FREES})
        one.see(27.9)
        assert one.expected == {"a": FREES}
        one.see(28)
        assert one.expected == {}
        # News of a pod that is gone change nothing.
        one.see(90)
        one.accepted("a", LATER + 90)
        one.refuse(90)
        assert (one.going, one.left(90)) == (frozenset(), 10)

    @pytest.mark.parametrize("ours", [True, False])
    def test_a_grace_period_of_years_is_not_waited_for(self, *, ours: bool) -> None:
        one = Account()
        pod = pod_view("a", grace_seconds=10**9, terminating=not ours)
        if ours:
            one.book(pod, "memory", FREES, grace_seconds(pod), LATER)
            one.accepted("a", LATER)
        one.see(0, pod)
        one.see(329, pod)
        assert one.going == {"a"}
        one.see(330, pod)
        assert (one.going, one.expected) == (frozenset(), {})

    def test_its_patience_begins_when_the_eviction_does(self) -> None:
        one = Account()
        pod = one.add()
        one.accepted("a", LATER + 40)
        assert one.see(99, pod) == ()
        assert one.see(100, pod) == (OverduePod(pod, "memory_evict", 100.0, 1),)
        assert one.going == frozenset()
        assert one.see(101, pod) == ()

    def test_an_eviction_without_an_answer_is_given_up(self) -> None:
        one = Account()
        pod = one.add()
        assert one.see(149, pod) == ()
        assert one.see(150, pod) != ()
        one.add(200)
        assert one.see(700, known=False) == (), "it is not there"

    def test_late_pods_are_tried_again_but_not_for_ever(self) -> None:
        one, at = Account(), 0.0
        for attempt in (1, 2, 3):
            pod = one.add(at)
            one.accepted("a", LATER + at)
            [late] = one.see(at + 60, pod)
            assert late.attempts == attempt
            assert "a" in one.barred(at + 60)
            at += 110
        assert one.barred(at + 1e6) == {"a": "has not gone after 3 evictions"}

    def test_pods_that_end_for_other_reasons_are_expected_too(self) -> None:
        one = Account()
        ending = pod_view("b", terminating=True, grace_seconds=5)
        one.see(0, ending, pod_view("c"), pod_view("d", listed=False))
        assert (one.going, one.expected) == ({"b"}, {"b": {}})
        [late] = one.see(35, ending)
        assert late.attempts == 0
        # It is stuck: expected once, not for ever.
        assert (one.see(36, ending), one.going) == ((), frozenset())

    def test_a_pod_that_stays_is_gone_without_containers(self) -> None:
        one = Account()
        pod = one.add(stays=True)
        one.see(1, pod)
        assert one.going == {"a"}
        one.see(2, pod_view_of(replace(pod.record, containers={})))
        assert one.going == frozenset()

    def test_what_is_pretended_is_forgotten(self) -> None:
        one = Account(pretended=True)
        pod = one.add()
        one.see(59, pod)
        assert (one.going, list(one.expected)) == (frozenset(), ["a"])
        assert (one.see(60, pod), one.barred(60), one.expected) == ((), {}, {})


def test_each_refusal_bars_a_pod_for_longer() -> None:
    one, at = Account(100), 0.0
    for seconds in (10, 20, 40, 80, 160, 300, 300):
        one.add(at)
        one.refuse(at)
        assert one.barred(at + seconds - 0.1) == {"a": "no"}
        at += seconds
        assert one.barred(at) == {}
    other = Account()
    other.add()
    other.refuse(after=45)
    assert other.barred(44) == {"a": "no"}
    other.see(1)
    assert other.barred(1) == {}, "it is gone"


def test_a_pod_is_warned_once_until_it_is_evicted_or_there_was_no_need_for_a_while() -> None:
    one, pod = Account(), pod_view("a")
    assert one.warn("a", LATER)
    assert not one.warn("a", LATER + 30)
    one.see(31, pod)
    assert one.room(LATER + 31).warned == {"a": 31.0}
    one.see(90, pod)
    assert one.warn("a", LATER + 90)
    one.add(90)
    assert one.room(LATER + 90).warned == {}


def test_the_grace_period_is_the_pod_s() -> None:
    pods = {}, {"grace_seconds": 0}, {"grace_seconds": 90}, {"listed": False}
    assert [grace_seconds(pod_view(**one)) for one in pods] == [30, 0, 90, 30]


@given(
    st.integers(0, 4),
    st.lists(
        st.tuples(st.floats(0, 30), st.sampled_from(["ok", "refused", "unknown"])), max_size=30
    ),
)
def test_no_minute_has_more_than_the_budget(
    per_minute: int, tries: list[tuple[float, str]]
) -> None:
    one, at, times = Account(per_minute), 0.0, list[float]()
    for number, (pause, end) in enumerate(tries):
        at += pause
        one.see(at, known=False)
        if one.left(at) <= 0:
            continue
        one.add(at, f"p{number}")
        if end != "ok":
            one.refuse(at, f"p{number}", happened=end == "unknown")
        if end != "refused":
            times.append(at)
    for last in times:
        assert sum(last - 60 < other <= last for other in times) <= per_minute
