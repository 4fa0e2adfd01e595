"""The loop that looks: who is asked when, what is kept, what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence

import pytest
from koord_model.node_info import NodeMemoryInfo
from koord_model.node_slo import NodeSLO
from koordlet.metrics_advisor import collector_runner as module
from koordlet.metrics_advisor.collector_runner import (
    CollectorRunner,
    LatestStore,
    ScheduledCollector,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorState,
    Samples,
    UnavailableError,
)
from koordlet.metrics_advisor.contract.samples import Sample, Series
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.observed import DictionaryCache
from tests.support.processes import PATIENCE

CPU = Series("node_cpu_usage")


class Kept(DictionaryCache):
    """Remembers what was appended, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[Sample] = []

    def append(self, at: float, samples: Iterable[Sample]) -> None:
        self.samples += samples


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.time, "time", lambda: self.now + 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Asked:
    def __init__(self, find: Callable[[CollectContext], Samples] = lambda _: Samples()) -> None:
        self.at: list[float] = []
        self._find = find

    def collect(self, look: CollectContext) -> Samples:
        self.at.append(look.steady)
        return self._find(look)


def observing(
    *watched: ScheduledCollector, off: Sequence[CollectorState] = ()
) -> tuple[CollectorRunner, Kept]:
    kept = Kept()
    return CollectorRunner(watched, off, kept, tuple, NodeSLO), kept


def found(value: float) -> Samples:
    return Samples([Sample(CPU, value)])


def raising(error: Exception) -> Callable[[CollectContext], Samples]:
    def find(_: CollectContext) -> Samples:
        raise error

    return find


def test_each_is_asked_at_its_interval(clock: Clock) -> None:
    fast, slow = Asked(), Asked()
    observer, _ = observing(
        ScheduledCollector("fast", fast, 1.0), ScheduledCollector("slow", slow, 10.0)
    )
    for _ in range(21):
        observer.collect_once()
        clock.now += 1
    assert len(fast.at) == 21
    assert slow.at == [1000.0, 1010.0, 1020.0]


def test_those_of_one_interval_stay_in_one_look(clock: Clock) -> None:
    def slow(_: CollectContext) -> Samples:
        clock.now += 0.2
        return Samples()

    first, second = Asked(slow), Asked(slow)
    observer, _ = observing(
        ScheduledCollector("first", first, 1.0), ScheduledCollector("second", second, 1.0)
    )
    for start in (1000, 1001, 1002):
        clock.now = float(start)
        observer.collect_once()
    assert (len(first.at), len(second.at)) == (3, 3)
    # Each still knows when it was asked itself.
    assert second.at == pytest.approx([1000.2, 1001.2, 1002.2])


def test_rounds_that_were_missed_are_not_made_up_for(clock: Clock) -> None:
    fast = Asked()
    observer, _ = observing(ScheduledCollector("fast", fast, 1.0))
    for step in (0, 50, 0.5, 0.6):
        clock.now += step
        observer.collect_once()
    assert fast.at == [1000.0, 1050.0, 1051.1]


def test_what_is_found_is_remembered(clock: Clock) -> None:
    observer, kept = observing(ScheduledCollector("a", Asked(lambda _: found(2.5)), 1.0))
    observer.collect_once()
    assert kept.samples == [Sample(CPU, 2.5)]
    assert observer.newest.value("node_cpu_usage") == 2.5
    [state] = observer.states()
    assert (state.available, state.rounds, state.samples) == (True, 1, 1)


def test_later_collectors_see_what_earlier_ones_found(clock: Clock) -> None:
    seen: list[float | None] = []

    def after(look: CollectContext) -> Samples:
        seen.append(look.latest.total("node_cpu_usage"))
        return Samples()

    first, second = Asked(lambda _: found(2.0)), Asked(after)
    observer, _ = observing(
        ScheduledCollector("a", first, 1.0), ScheduledCollector("b", second, 1.0)
    )
    observer.collect_once()
    assert seen == [2.0]


@pytest.mark.parametrize(
    ("error", "message", "failures"),
    [
        (UnavailableError("no perf events"), "collector unavailable", 0),
        (RuntimeError("oh"), "collector failed", 1),
    ],
)
def test_one_that_cannot_work_says_so_once_and_costs_nobody_else(
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    message: str,
    failures: int,
) -> None:
    caplog.set_level("INFO")
    observer, kept = observing(
        ScheduledCollector("bad", Asked(raising(error)), 1.0),
        ScheduledCollector("good", Asked(lambda _: found(1)), 1.0),
    )
    for _ in range(3):
        observer.collect_once()
        clock.now += 60
    assert len(kept.samples) == 3
    assert sum(message in record.getMessage() for record in caplog.records) == 1
    bad = observer.states()[0]
    assert not bad.available
    assert bool(bad.failures) == bool(failures)
    assert str(error) in bad.reason


def test_one_that_cannot_work_is_asked_again_now_and_then(clock: Clock) -> None:
    bad = Asked(raising(UnavailableError("not yet")))
    observer, _ = observing(ScheduledCollector("bad", bad, 1.0))
    for _ in range(121):
        observer.collect_once()
        clock.now += 1
    assert bad.at == [1000.0, 1060.0, 1120.0]


def test_what_could_not_be_read_is_said_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    observer, _ = observing(
        ScheduledCollector("a", Asked(lambda _: Samples(partial=("x is odd",))), 1.0)
    )
    for _ in range(3):
        observer.collect_once()
        clock.now += 1
    assert len(caplog.records) == 1


async def test_a_look_that_fails_as_a_whole_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    looks = asyncio.Event()
    pods = iter([RuntimeError("dictionary changed size during iteration")])
    loop = asyncio.get_running_loop()

    def records() -> tuple[PodRecord, ...]:
        for error in pods:
            raise error
        loop.call_soon_threadsafe(looks.set)
        return ()

    observer = CollectorRunner(
        [ScheduledCollector("a", Asked(), 0.01)], [], Kept(), records, NodeSLO
    )
    task = loop.create_task(observer.run())
    async with asyncio.timeout(PATIENCE):
        await looks.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert [one.getMessage() for one in caplog.records] == ["collection failed"]


async def test_the_cache_is_loaded_first_and_closed_after_the_look_under_way() -> None:
    looking, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def find(_: CollectContext) -> Samples:
        looking.set()
        go_on.wait(PATIENCE)
        done.append("looked")
        return Samples()

    class Closed(Kept):
        def load(self) -> None:
            done.append("loaded")

        def append(self, at: float, samples: Iterable[Sample]) -> None:
            done.append("appended")

        def close(self) -> None:
            done.append("closed")

    observer = CollectorRunner(
        [ScheduledCollector("a", Asked(find), 1.0)], [], Closed(), tuple, NodeSLO
    )
    loop = asyncio.get_running_loop()
    task = loop.create_task(observer.run())
    await asyncio.to_thread(looking.wait, PATIENCE)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    closing = loop.create_task(observer.finish())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert done == ["loaded", "looked", "appended", "closed"]


def test_one_that_hangs_aside_holds_nobody_up_and_is_shown(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    answer = threading.Event()

    def hang(_: CollectContext) -> Samples:
        answer.wait(PATIENCE)
        return found(7)

    good = Asked(lambda _: found(1))
    slow = ScheduledCollector("slow", Asked(hang), 1.0, blocking=True)
    observer, kept = observing(slow, ScheduledCollector("good", good, 1.0))
    for _ in range(13):
        observer.collect_once()
        clock.now += 1
    assert len(good.at) == 13
    state = observer.states()[1]
    assert (state.name, state.available) == ("slow", False)
    assert "hangs" in state.reason
    assert len(caplog.records) == 1
    answer.set()
    assert slow.thread is not None
    slow.thread.join(PATIENCE)
    observer.collect_once()
    assert Sample(CPU, 7) in kept.samples
    assert observer.states()[1].available


def test_those_that_are_off_are_shown(clock: Clock) -> None:
    off = CollectorState("psi", 10.0, enabled=False, available=False, reason="gate is off")
    observer, _ = observing(ScheduledCollector("z", Asked(), 1.0), off=[off])
    assert [state.name for state in observer.states()] == ["psi", "z"]


def test_a_wall_clock_that_is_set_makes_nobody_look_stuck(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer, _ = observing(ScheduledCollector("a", Asked(), 1.0))
    assert observer.states()[0].looked_at == 0
    observer.collect_once()
    clock.now += 2
    assert observer.states()[0].looked_at == 1000.0 + 1e9
    monkeypatch.setattr(module.time, "time", lambda: clock.now + 2e9)
    assert observer.states()[0].looked_at == 1000.0 + 2e9


class TestNewest:
    def test_old_values_count_as_none(self) -> None:
        now = 100.0
        newest = LatestStore(10.0, lambda: now)
        newest.keep(found(1.0), 100.0)
        assert newest.total("node_cpu_usage") == 1.0
        now = 111.0
        assert newest.value("node_cpu_usage") is None
        assert newest.total("node_cpu_usage") is None
        assert newest.series("node_cpu_usage") == {}

    def test_a_total_is_over_all_series(self) -> None:
        newest = LatestStore(10.0, lambda: 100.0)
        samples = [Sample(Series("pod_cpu_usage", (uid,)), 0.5) for uid in "abc"]
        newest.keep(Samples(samples), 95.0)
        assert newest.total("pod_cpu_usage") == 1.5
        assert newest.value("pod_cpu_usage", "b") == 0.5

    def test_what_is_silent_for_long_is_forgotten(self) -> None:
        now = 100.0
        newest = LatestStore(10.0, lambda: now)
        newest.keep(found(1.0), 100.0)
        now = 701.0
        newest.forget()
        now = 100.0
        assert newest.value("node_cpu_usage") is None

    def test_facts_are_kept_by_their_kind(self) -> None:
        newest = LatestStore(10.0, lambda: 0.0)
        assert newest.fact(NodeMemoryInfo) is None
        newest.keep(Samples(facts=(NodeMemoryInfo(1),)), 0.0)
        newest.keep(Samples(facts=(NodeMemoryInfo(2),)), 0.0)
        assert newest.fact(NodeMemoryInfo) == NodeMemoryInfo(2)
