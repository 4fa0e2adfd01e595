"""Keys and the workers that reconcile them, through failures, deadlines and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from koord_kube.core.retry_schedule import RetryTiming
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import SharedBackoff
from koord_kube.work_queue import WorkQueue

from tests.support.processes import PATIENCE

NOT_IN_THIS_TEST = 1e6
"""Seconds."""


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0)


class Bench:
    """A loop with short waits; ``calls`` are the keys it was called for, in order."""

    def __init__(
        self, reconcile: Callable[[str], Awaitable[float | None]] | None = None, **more: Any
    ):
        self.calls: list[str] = []
        self.warnings: list[str] = []
        self._reconcile = reconcile
        queue = WorkQueue(first=0.001, cap=0.002, chance=lambda: 1.0)
        more = {"queue": queue, "on_warning": self.warnings.append} | more
        self.loop = ReconcileLoop("node_slo", self._call, **more)

    async def _call(self, key: str) -> float | None:
        self.calls.append(key)
        return await self._reconcile(key) if self._reconcile is not None else None

    @asynccontextmanager
    async def running(self):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.loop.run())
            yield task
            task.cancel()


async def test_every_key_is_handled_also_those_added_before_it_runs():
    bench = Bench()
    for number in range(100):
        bench.loop.add(f"n{number % 50}")
    async with bench.running():
        await until(lambda: len(bench.calls) == 50)
        bench.loop.add("late")
        await until(lambda: bench.calls[-1] == "late")
    assert len(set(bench.calls)) == len(bench.calls) == bench.loop.handled
    assert len(bench.loop) == 0


async def test_a_key_is_never_processed_twice_at_once_and_workers_are_limited():
    gate = asyncio.Semaphore(0)
    processing: list[str] = []
    most = 0

    async def reconcile(key: str) -> None:
        nonlocal most
        assert key not in processing
        processing.append(key)
        most = max(most, len(processing))
        await gate.acquire()
        processing.remove(key)

    bench = Bench(reconcile, workers=3)
    for key in "abcd":
        bench.loop.add(key)
    async with bench.running():
        await until(lambda: len(processing) == 3)
        bench.loop.add("a")
        bench.loop.add("a")
        for _ in range(5):
            gate.release()
        await until(lambda: bench.loop.handled == 5)
    assert most == 3
    assert sorted(bench.calls) == ["a", "a", "b", "c", "d"]


async def test_a_failure_is_retried_and_logged_once_for_all_keys():
    bad = True

    async def reconcile(key: str) -> None:
        if bad:
            raise ApiError(f"patch nodeslos {key}: HTTP 503", 503)

    bench = Bench(reconcile)
    for number in range(20):
        bench.loop.add(f"n{number}")
    async with bench.running():
        await until(lambda: bench.loop.failures > 60)
        [warning] = bench.warnings
        assert "node_slo: n0: patch nodeslos n0: HTTP 503" in warning
        assert bench.loop.problem.startswith("node_slo: 20 to be retried; n")
        bad = False
        await until(lambda: bench.loop.handled == 20)
    assert bench.warnings[1:] == ["node_slo: all that failed is done now"]
    assert bench.loop.problem == ""


@pytest.mark.parametrize(
    ("error", "warning"),
    [
        (KeyError("spec"), "KeyError: 'spec'"),
        (ValueError("two\nlines"), "two lines"),
        (NotLeadingError("nodes bad: not written"), None),
        (None, "not done within 0.01 s"),
    ],
    ids=["defect", "bad value", "others lead", "it hangs"],
)
async def test_a_failure_costs_its_key_alone(error: Exception | None, warning: str | None):
    async def reconcile(key: str) -> None:
        if key == "bad":
            if error is not None:
                raise error
            await anyio.sleep_forever()

    bench = Bench(reconcile, **({} if error else {"deadline": 0.01}))
    bench.loop.add("bad")
    bench.loop.add("good")
    async with bench.running():
        await until(lambda: bench.loop.handled == 1 and bench.loop.failures > 1)
    lines = [f"node_slo: bad: {warning}; retried with growing waits"]
    assert bench.warnings == (lines if warning else [])


async def test_the_server_s_retry_after_is_waited():
    clock = 100.0
    tries: list[float] = []

    async def reconcile(_key: str) -> None:
        tries.append(clock)
        if len(tries) == 1:
            raise ApiError("patch nodes n1: HTTP 429", 429, retry_after=0.07)

    bench = Bench(reconcile, queue=WorkQueue(first=0.001, monotonic=lambda: clock))
    bench.loop.add("n1")
    async with bench.running():
        await until(lambda: bench.loop.failures == 1)
        clock = 100.06
        bench.loop.add("n1")
        bench.loop.add("n2")
        await until(lambda: len(tries) == 2)  # n2's: n1 waits on
        clock = 100.075
        bench.loop.add("n1")
        await until(lambda: len(tries) == 3)
    assert tries == [100.0, 100.06, 100.075]


async def test_a_key_that_was_being_processed_when_it_was_cancelled_is_due_again():
    async def reconcile(_key: str) -> None:
        if len(bench.calls) == 1:
            await anyio.sleep_forever()

    bench = Bench(reconcile)
    bench.loop.add("n1")
    async with bench.running() as task:
        await until(lambda: bench.calls == ["n1"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with bench.running():
        await until(lambda: bench.calls == ["n1", "n1"])


async def test_a_key_comes_when_it_is_due():
    bench = Bench()
    for key, after in (("later", 0.02), ("never", 3600), ("now", 0)):
        bench.loop.add(key, after)
    async with bench.running():
        await until(lambda: len(bench.calls) == 2)
    assert bench.calls == ["now", "later"]
    assert len(bench.loop) == 1


async def test_a_key_comes_again_when_its_reconciliation_says_or_earlier_if_it_is_added():
    clock = 100.0
    times: list[float] = []

    async def reconcile(_key: str) -> float | None:
        times.append(clock)
        if len(times) == 1:
            bench.loop.add("n1")  # it changed meanwhile
        return 60.0 if len(times) < 4 else None

    bench = Bench(reconcile, queue=WorkQueue(monotonic=lambda: clock))
    bench.loop.add("n1")
    async with bench.running():
        await until(lambda: len(times) == 2)
        clock = 159.0
        bench.loop.add("n2")
        await until(lambda: len(times) == 3)
        clock = 160.0
        bench.loop.add("n1", after=3600.0)
        await until(lambda: len(times) == 4)
    assert bench.calls == ["n1", "n1", "n2", "n1"]
    assert len(bench.loop) == 1  # n2 alone asked for another


async def test_retries_of_all_keys_together_are_slowed_down():
    """The first 1000 only by their own backoff, then 100 a second."""
    queue = WorkQueue(first=0.001, cap=0.002, monotonic=lambda: 0.0, chance=lambda: 1.0)
    for number in range(1010):
        queue.add(f"n{number}")
        queue.retry(await queue.get())
    assert queue._schedule._not_before["n999"] == pytest.approx(0.001)
    assert queue._schedule._not_before["n1009"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("error", "is_woken"),
    [
        (ApiError("patch nodes n1: no answer"), True),
        (ApiError("patch nodes n1: HTTP 500", 500), True),
        (ApiError("patch nodes n1: HTTP 503", 503, retry_after=NOT_IN_THIS_TEST), False),
        (ApiError("patch nodes n1: HTTP 403", 403), False),
        (NotLeadingError("nodes n1: not written"), False),
        (KeyError("spec"), False),
    ],
    ids=["no answer", "in problem", "asked to wait", "no rights", "others lead", "defect"],
)
async def test_what_an_outage_has_failed_is_done_after_it(error: Exception, is_woken: bool):
    async def reconcile(key: str) -> None:
        if key != "n3" and bench.calls.count(key) == 1:
            raise error

    backoff = SharedBackoff(RetryTiming(spread=0.0))
    queue = WorkQueue(first=NOT_IN_THIS_TEST, cap=NOT_IN_THIS_TEST, chance=lambda: 0.0)
    bench = Bench(reconcile, queue=queue, backoff=backoff)
    for key in ("n1", "n2"):
        bench.loop.add(key)
    async with bench.running():
        await until(lambda: bench.loop.failures == 2)
        backoff.succeeded()
        bench.loop.add("n3")
        await until(lambda: len(bench.calls) == (5 if is_woken else 3))


async def test_one_that_fails_alone_waits_for_itself():
    async def reconcile(_key: str) -> None:
        raise ApiError("patch nodes n1: HTTP 500", 500)

    clock = 0.0
    backoff = SharedBackoff(RetryTiming(spread=0.0))
    queue = WorkQueue(first=1.0, cap=64.0, monotonic=lambda: clock, chance=lambda: 1.0)
    bench = Bench(reconcile, queue=queue, backoff=backoff)
    bench.loop.add("n1")
    async with bench.running():
        for at in range(300):
            clock = float(at)
            backoff.succeeded()
            for _ in range(5):
                await asyncio.sleep(0)
    assert len(bench.calls) <= 12  # at 0, 0, 2, 6, 14 …
