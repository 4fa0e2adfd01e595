"""The order in which keys come, whatever is added when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.work_schedule import WorkSchedule

KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.integers(0, 5)),
        st.tuples(st.just("take"), st.none(), st.integers(0, 3)),
        st.tuples(st.just("done"), KEYS, st.none()),
        st.tuples(st.just("failed"), KEYS, st.integers(0, 5)),
    ),
    max_size=60,
)


def test_a_key_added_often_comes_once_at_its_earliest_time():
    schedule = WorkSchedule()
    for at in (9, 3, 7):
        schedule.add("n1", at)
    assert (len(schedule), schedule.next_at()) == (1, 3)
    assert schedule.take(2) is None
    assert schedule.take(3) == "n1"
    assert schedule.take(100) is None


def test_those_due_at_once_come_as_they_were_added():
    schedule = WorkSchedule()
    for key in ("c", "a", "b"):
        schedule.add(key, 1)
    assert [schedule.take(1) for _ in range(3)] == ["c", "a", "b"]


def test_a_key_added_while_processing_comes_again_after_that():
    schedule = WorkSchedule()
    schedule.add("n1", 0)
    assert schedule.take(0) == "n1"
    schedule.add("n1", 1)
    assert schedule.take(5) is None
    schedule.done("n1")
    assert schedule.take(5) == "n1"


def test_a_failed_key_waits_whoever_adds_it():
    schedule = WorkSchedule()
    schedule.add("n1", 0)
    schedule.take(0)
    schedule.add("n1", 1)
    schedule.failed("n1", 10)
    schedule.add("n1", 2)
    assert schedule.take(9) is None
    assert schedule.take(10) == "n1"
    schedule.done("n1")
    schedule.add("n1", 11)
    assert schedule.take(11) == "n1"


@given(STEPS)
def test_no_key_is_processing_twice_and_none_is_lost(steps):
    schedule = WorkSchedule()
    processing: set[str] = set()
    wanted: set[str] = set()
    now = 0
    for what, key, number in steps:
        if what == "add":
            schedule.add(key, now + number)
            wanted.add(key)
        elif what == "take":
            now += number
            key = schedule.take(now)
            assert key not in processing
            if key is None:
                at = schedule.next_at()
                assert at is None or at > now
            else:
                processing.add(key)
                wanted.remove(key)
        elif key in processing:
            processing.remove(key)
            if what == "failed":
                schedule.failed(key, now + number)
                wanted.add(key)
            else:
                schedule.done(key)
        assert len(schedule) == len(wanted)
        assert schedule.processing == len(processing)
    for key in processing:
        schedule.done(key)
    assert {schedule.take(now + 100) for _ in wanted} == wanted


def test_a_failed_key_alone_is_brought_forward_and_not_while_processing():
    schedule = WorkSchedule()
    schedule.bring_forward("n2", 0)
    assert len(schedule) == 0
    schedule.add("n1", 0)
    schedule.take(0)
    schedule.failed("n1", 10)
    schedule.bring_forward("n1", 5)
    assert schedule.next_at() == 5
    assert schedule.take(5) == "n1"
    schedule.bring_forward("n1", 6)
    assert len(schedule) == 0
    schedule.failed("n1", 20)
    assert schedule.next_at() == 20
