"""The queue of slow effects, and the threads that do them."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.planning.jobs import (
    OVERDUE_SECONDS,
    CancelToken,
    InlineJobs,
    Job,
    JobEnd,
    JobKey,
    JobQueue,
    uncancelled,
)
from koord_host.resource_executor.job_threads import JobThreads

from tests.support.processes import PATIENCE


class Clock:
    """Steady seconds that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def nothing(_: CancelToken) -> None: ...


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def job(kind: str = "k", target: str = "", owner: str = "", **more: float) -> Job:
    return Job(JobKey(kind, target, owner), more.pop("seconds", 10.0), nothing, **more)


class TestToken:
    def test_work_goes_on_until_it_is_cancelled(self) -> None:
        token = CancelToken(Clock(), 10.0)
        assert (token.cancelled(), token.end, token.reason) == (False, JobEnd.DONE, "")
        token.cancel()
        assert token.end is JobEnd.DONE, "it may yet end by itself"
        assert token.cancelled()
        assert (token.end, token.reason) == (JobEnd.CANCELLED, "it was cancelled")
        assert not uncancelled().cancelled()
        assert not uncancelled().overdue()

    def test_work_goes_on_until_its_deadline(self) -> None:
        clock = Clock()
        token = CancelToken(clock, 10.0)
        clock.now += 9
        assert (token.cancelled(), token.remaining()) == (False, 1.0)
        clock.now += 1
        assert (token.cancelled(), token.end, token.remaining()) == (True, JobEnd.DEADLINE, 0.0)
        assert token.reason == "it took longer than 10 s"


class TestQueue:
    def test_one_of_a_kind_runs_at_a_time_and_kinds_do_not_wait_for_each_other(self) -> None:
        queue = JobQueue(Clock())
        for one in (job("a", "1"), job("a", "2"), job("b", "1")):
            queue.put(one)
        first = queue.begin("a")
        assert first is not None
        assert first.job.key.target == "1"
        assert queue.begin("a") is None
        assert queue.begin("b") is not None
        queue.end(first)
        second = queue.begin("a")
        assert second is not None
        assert second.job.key.target == "2"

    def test_a_newer_one_takes_the_place_of_one_that_waits(self) -> None:
        queue = JobQueue(Clock())
        older, other, newer = job(target="1"), job(target="2"), job(target="1", seconds=20.0)
        for one in (older, other, newer):
            queue.put(one)
        running = queue.begin("k")
        assert running is not None
        assert running.job is newer, "and its turn"
        queue.put(older)
        assert len(queue.states()) == 3, "what runs is left to end"
        assert queue.ended == {("k", JobEnd.REPLACED): 1}

    def test_what_has_waited_too_long_is_dropped(self) -> None:
        clock = Clock()
        queue = JobQueue(clock)
        queue.put(job(target="1", wait=30.0))
        queue.put(job(target="2"))
        clock.now += 31
        running = queue.begin("k")
        assert running is not None
        assert running.job.key.target == "2"
        assert queue.ended == {("k", JobEnd.EXPIRED): 1}

    def test_what_waits_is_dropped_and_what_runs_is_reported_when_all_is_cancelled(self) -> None:
        queue = JobQueue(Clock())
        queue.put(job(target="1"))
        running = queue.begin("k")
        queue.put(job(target="2"))
        queue.cancel()
        assert running is not None
        assert [one.key.target for one in queue.states()] == ["1"]
        assert running.token.cancelled()
        queue.end(running)
        assert queue.ended == {("k", JobEnd.CANCELLED): 2}
        assert queue.idle

    def test_states_say_for_how_long(self) -> None:
        clock = Clock()
        queue = JobQueue(clock)
        queue.put(job("a", "1", "me"))
        queue.begin("a")
        clock.now += 2
        queue.put(job("b"))
        clock.now += 3
        assert queue.states() == (
            (("a", "1", "me"), "running", 5.0, 10.0),
            (("b", "", ""), "waiting", 3.0, 10.0),
        )

    def test_what_does_not_stop_after_its_deadline_is_reported_once(self) -> None:
        clock = Clock()
        queue = JobQueue(clock)
        queue.put(job())
        running = queue.begin("k")
        clock.now += 10 + OVERDUE_SECONDS / 2
        assert queue.take_overdue() == ()
        clock.now += OVERDUE_SECONDS
        [late] = queue.take_overdue()
        assert (late.key.kind, late.state) == ("k", "overdue")
        assert queue.take_overdue() == ()
        assert queue.states()[0].state == "overdue"
        assert running is not None
        assert running.token.cancelled()
        queue.end(running)
        assert queue.ended == {("k", JobEnd.DEADLINE): 1}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.sampled_from("123")),
        st.tuples(st.just("begin"), st.sampled_from("ab"), st.just("")),
        st.tuples(st.just("end"), st.sampled_from("ab"), st.just("")),
        st.tuples(st.just("cancel"), st.just(""), st.just("")),
        st.tuples(st.just("later"), st.just(""), st.just("")),
    ),
    max_size=40,
)


@given(STEPS)
def test_every_job_ends_once_and_no_two_of_a_kind_run(steps: list[tuple[str, str, str]]) -> None:
    clock = Clock()
    queue = JobQueue(clock)
    running: dict[str, object] = {}
    put = 0
    for step, kind, target in steps:
        if step == "put":
            queue.put(job(kind, target, wait=30.0))
            put += 1
        elif step == "begin":
            begun = queue.begin(kind)
            assert begun is None or kind not in running
            if begun is not None:
                running[kind] = begun
        elif step == "end" and kind in running:
            queue.end(running.pop(kind))  # type: ignore[arg-type]
        elif step == "cancel":
            queue.cancel()
        elif step == "later":
            clock.now += 20
        states = queue.states()
        keys = [one.key for one in states if one.state == "waiting"]
        assert len(set(keys)) == len(keys)
        assert Counter(one.key.kind for one in states if one.state != "waiting") == Counter(
            [*running]
        )
        assert put == sum(queue.ended.values()) + len(states)
        assert queue.idle == (not states)


class TestInline:
    def test_each_is_done_where_it_is_submitted(self) -> None:
        done: list[str] = []
        jobs = InlineJobs(Clock())
        jobs.submit(Job(JobKey("k"), 10.0, lambda _: done.append("x")))
        assert done == ["x"]
        assert jobs.ended() == {("k", JobEnd.DONE): 1}
        assert jobs.wait(0.0) == jobs.states() == jobs.take_overdue() == ()

    def test_a_defect_is_the_submitter_s(self) -> None:
        def fail(_: CancelToken) -> None:
            raise KeyError("x")

        jobs = InlineJobs(Clock())
        with pytest.raises(KeyError):
            jobs.submit(Job(JobKey("k"), 10.0, fail))
        assert jobs.ended() == {("k", JobEnd.FAILED): 1}


class Gate:
    """Work that has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, _: CancelToken) -> None:
        self.begun.set()
        assert self.open.wait(PATIENCE)

    def job(self, kind: str = "k", target: str = "") -> Job:
        return Job(JobKey(kind, target), 60.0, self)


class TestThreads:
    def test_one_that_hangs_holds_up_neither_other_kinds_nor_who_submits(self) -> None:
        jobs, hangs, done = JobThreads(no_defect), Gate(), threading.Event()
        jobs.submit(hangs.job("nft"))
        assert hangs.begun.wait(PATIENCE)
        jobs.submit(Job(JobKey("reclaim"), 60.0, lambda _: done.set()))
        assert done.wait(PATIENCE)
        hangs.open.set()
        assert jobs.wait(PATIENCE) == ()

    def test_threads_end_when_there_is_nothing_to_do_and_come_again(self) -> None:
        jobs = JobThreads(no_defect)
        for number in range(1, 4):
            jobs.submit(job("short"))
            assert jobs.wait(PATIENCE) == ()
            assert jobs.ended() == {("short", JobEnd.DONE): number}
        with jobs._changed:
            assert jobs._changed.wait_for(lambda: not jobs._kinds, PATIENCE)

    def test_where_no_thread_can_be_had_jobs_wait_for_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reported: list[str] = []
        jobs, done = JobThreads(lambda kind, error: reported.append(f"{kind}: {error}")), []
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            for number in range(3):
                key = JobKey("reclaim", str(number))
                jobs.submit(Job(key, 60.0, lambda _, n=number: done.append(n)))  # type: ignore[misc]
                jobs.retry()
        assert [one.state for one in jobs.states()] == ["waiting"] * 3
        assert reported == ["reclaim: can't start new thread; the job waits"]
        jobs.retry()
        assert jobs.wait(PATIENCE) == ()
        assert done == [0, 1, 2]

    def test_a_defect_is_reported_and_the_next_one_is_done(self) -> None:
        reported: list[tuple[str, str]] = []
        jobs = JobThreads(lambda kind, error: reported.append((kind, repr(error))))
        first, gate = Gate(), threading.Event()

        def fail(_: CancelToken) -> None:
            raise KeyError("x")

        jobs.submit(first.job("k", "1"))
        jobs.submit(Job(JobKey("k", "2"), 60.0, fail))
        jobs.submit(Job(JobKey("k", "3"), 60.0, lambda _: gate.set()))
        first.open.set()
        assert gate.wait(PATIENCE)
        assert jobs.wait(PATIENCE) == ()
        assert reported == [("k", "KeyError('x')")]
        assert jobs.ended() == {("k", JobEnd.DONE): 2, ("k", JobEnd.FAILED): 1}

    def test_who_waits_hears_of_what_hangs_and_is_not_kept(self) -> None:
        clock = Clock()
        jobs, hangs = JobThreads(no_defect, clock), Gate()
        jobs.submit(hangs.job("hangs", "1"))
        assert hangs.begun.wait(PATIENCE)
        jobs.submit(job("hangs", "2"))
        jobs.cancel()
        [left] = jobs.wait(0.0)
        assert (left.key, left.state) == (("hangs", "1", ""), "running")
        clock.now += 60 + OVERDUE_SECONDS
        assert [one.key.kind for one in jobs.take_overdue()] == ["hangs"]
        # Nor does it keep the program from ending.
        assert [one.daemon for one in threading.enumerate() if one.name == "hangs"] == [True]
        hangs.open.set()
        assert jobs.wait(PATIENCE) == ()


def no_defect(kind: str, error: Exception) -> None:
    raise AssertionError(kind) from error
