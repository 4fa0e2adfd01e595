"""The loop that looks: who is asked when, what is kept, what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence

import pytest
from koord_model.node_info import NodeMemoryInfo
from koord_model.node_slo import NodeSLO
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor import collector_runner as module
from koordlet.metrics_advisor.collector_runner import (
    CollectorRunner,
    LatestStore,
    PresentPods,
    ScheduledCollector,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorState,
    Samples,
    UnavailableError,
)
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


def test_pods_that_are_gone_for_a_while_are_forgotten() -> None:
    present = PresentPods()
    assert present.update(None, 0.0) is None
    assert present.update(["a", "b"], 1000.0) is None, "the list may not be whole yet"
    assert present.update(["a"], 1119.0) is None
    assert present.update(["a"], 1120.0) == {"a", "b"}
    assert present.update(["a"], 1121.0) is None, "now and then is enough"
    assert present.update(["a", "c"], 1135.0) == {"a", "c"}
    assert present.update(None, 2000.0) is None
    assert present.update(["a"], 2001.0) is None


def found(value: float) -> Samples:
    return Samples([Sample(CPU, value)])


def raising(error: Exception) -> Callable[[CollectContext], Samples]:
    def find(_: CollectContext) -> Samples:
        raise error

    return find


@pytest.mark.parametrize(
    ("interval", "error", "steps", "at"),
    [
        (1.0, None, [1] * 4, [1000, 1001, 1002, 1003]),
        (10.0, None, [1] * 21, [1000, 1010, 1020]),
        (1.0, UnavailableError("not yet"), [1] * 121, [1000, 1060, 1120]),
        (1.0, None, [50, 0.5, 0.6, 1], [1000, 1050, 1051.1]),
    ],
    ids=["fast", "slow", "unavailable", "missed rounds are not made up for"],
)
def test_when_one_is_asked(
    clock: Clock, interval: float, error: Exception | None, steps: list[float], at: list[float]
) -> None:
    asked = Asked(raising(error) if error else lambda _: Samples())
    beside = Asked()
    observer, _ = observing(
        ScheduledCollector("beside", beside, 1.0), ScheduledCollector("a", asked, interval)
    )
    for step in steps:
        observer.collect_once()
        clock.now += step
    assert asked.at == pytest.approx(at)
    assert len(beside.at) >= len(steps) - 1


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


def test_what_is_found_is_remembered_and_seen_by_later_collectors(clock: Clock) -> None:
    seen: list[float | None] = []

    def after(look: CollectContext) -> Samples:
        seen.append(look.latest.total("node_cpu_usage"))
        return Samples()

    first, second = Asked(lambda _: found(2.5)), Asked(after)
    off = CollectorState("psi", 10.0, enabled=False, available=False, reason="gate is off")
    observer, kept = observing(
        ScheduledCollector("z", first, 1.0), ScheduledCollector("a", second, 1.0), off=[off]
    )
    observer.collect_once()
    assert seen == [2.5]
    assert kept.samples == [Sample(CPU, 2.5)]
    assert observer.newest.value("node_cpu_usage") == 2.5
    states = {state.name: state for state in observer.states()}
    assert list(states) == ["a", "psi", "z"]
    assert (states["z"].available, states["z"].rounds, states["z"].samples) == (True, 1, 1)


@pytest.mark.parametrize(
    ("find", "message", "failures", "reason"),
    [
        (raising(UnavailableError("no perf")), "collector unavailable", 0, "no perf"),
        (raising(RuntimeError("oh")), "collector failed", 3, "oh"),
        (lambda _: Samples(partial=("x is odd",)), "not collected", 0, ""),
    ],
)
def test_problem_is_logged_once_and_costs_nobody_else(
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    find: Callable[[CollectContext], Samples],
    message: str,
    failures: int,
    reason: str,
) -> None:
    caplog.set_level("INFO")
    observer, kept = observing(
        ScheduledCollector("bad", Asked(find), 1.0),
        ScheduledCollector("good", Asked(lambda _: found(1)), 1.0),
    )
    for _ in range(3):
        observer.collect_once()
        clock.now += 60
    assert len(kept.samples) == 3
    assert [record.getMessage() for record in caplog.records] == [message]
    bad = observer.states()[0]
    assert (bad.available, bad.failures) == (not reason, failures)
    assert reason in bad.reason


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


def test_without_a_thread_for_one_the_others_go_on_and_it_is_tried_again(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    slow = ScheduledCollector("slow", Asked(lambda _: found(7)), 1.0, blocking=True)
    good = Asked(lambda _: found(1))
    observer, kept = observing(slow, ScheduledCollector("good", good, 1.0))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(3):
            observer.collect_once()
            clock.now += 1
    assert len(good.at) == len(kept.samples) == 3
    assert "can't start new thread" in observer.states()[1].reason
    assert len(caplog.records) == 1
    observer.collect_once()
    assert slow.thread is not None
    slow.thread.join(PATIENCE)
    observer.collect_once()
    assert Sample(CPU, 7) in kept.samples


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
        now = 95.0
        newest = LatestStore(10.0, lambda: now)
        samples = [Sample(Series("pod_cpu_usage", (uid,)), 0.5) for uid in "abc"]
        newest.keep(Samples(samples), 95.0)
        for now, total, value in ((105.0, 1.5, 0.5), (105.1, None, None)):  # noqa: B007
            assert newest.total("pod_cpu_usage") == total
            assert newest.value("pod_cpu_usage", "b") == value
            assert len(newest.series("pod_cpu_usage")) == (3 if total else 0)

    def test_what_is_silent_for_long_is_forgotten(self) -> None:
        now = 100.0
        newest = LatestStore(10.0, lambda: now)
        newest.keep(found(1.0), 100.0)
        now = 701.0
        newest.forget()
        now = 100.0
        assert newest.value("node_cpu_usage") is None

    def test_infos_are_kept_by_their_kind(self) -> None:
        newest = LatestStore(10.0, lambda: 0.0)
        assert newest.info(NodeMemoryInfo) is None
        newest.keep(Samples(infos=(NodeMemoryInfo(1),)), 0.0)
        newest.keep(Samples(infos=(NodeMemoryInfo(2),)), 0.0)
        assert newest.info(NodeMemoryInfo) == NodeMemoryInfo(2)
