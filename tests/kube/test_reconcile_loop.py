"""Keys and the workers that reconcile them, through failures, deadlines and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from koord_kube.core.warnings import ignore_warning
from koord_kube.protocol.api import ApiError, NotLeadingError
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.work_queue import WorkQueue

from tests.support.processes import PATIENCE

Handle = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def running(loop: ReconcileLoop):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(loop.run())
        yield task
        task.cancel()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0)


def quick(handle: Handle, told: list[str] | None = None, **more: Any) -> ReconcileLoop:
    queue = more.pop("queue", None) or WorkQueue(first=0.001, cap=0.002, chance=lambda: 1.0)
    on_warning = told.append if told is not None else ignore_warning
    return ReconcileLoop("node_slo", handle, queue=queue, on_warning=on_warning, **more)


async def test_every_key_is_handled_also_those_added_before_it_runs():
    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    loop = quick(handle)
    for number in range(100):
        loop.add(f"n{number % 50}")
    async with running(loop):
        await until(lambda: len(done) == 50)
        loop.add("late")
        await until(lambda: done[-1] == "late")
    assert len(set(done)) == len(done) == loop.handled
    assert len(loop) == 0


async def test_a_key_is_never_under_way_twice_and_workers_are_no_more_than_asked():
    gate = asyncio.Semaphore(0)
    under_way: list[str] = []
    most = 0
    handled: list[str] = []

    async def handle(key: str) -> None:
        nonlocal most
        assert key not in under_way
        under_way.append(key)
        most = max(most, len(under_way))
        await gate.acquire()
        under_way.remove(key)
        handled.append(key)

    loop = quick(handle, workers=3)
    for key in "abcd":
        loop.add(key)
    async with running(loop):
        await until(lambda: len(under_way) == 3)
        loop.add("a")
        loop.add("a")
        gate.release()
        await until(lambda: len(handled) == 1)
        for _ in range(4):
            gate.release()
        await until(lambda: len(handled) == 5)
    assert most == 3
    assert sorted(handled) == ["a", "a", "b", "c", "d"]


async def test_a_failure_is_retried_and_told_once_for_all_keys_until_all_is_well():
    bad = True
    done: list[str] = []
    told: list[str] = []

    async def handle(key: str) -> None:
        if bad:
            raise ApiError(f"patch nodeslos {key}: HTTP 503", 503)
        done.append(key)

    loop = quick(handle, told)
    for number in range(20):
        loop.add(f"n{number}")
    async with running(loop):
        await until(lambda: loop.failures > 60)
        assert len(told) == 1
        assert "node_slo: n0: patch nodeslos n0: HTTP 503" in told[0]
        assert loop.trouble.startswith("node_slo: 20 to be retried; n")
        bad = False
        await until(lambda: len(done) == 20)
    assert told[1:] == ["node_slo: all that failed is done now"]
    assert loop.trouble == ""


async def test_what_the_server_asks_to_wait_is_waited():
    clock = 100.0
    tries: list[float] = []

    async def handle(_key: str) -> None:
        tries.append(clock)
        if len(tries) == 1:
            raise ApiError("patch nodes n1: HTTP 429", 429, retry_after=7)

    loop = quick(handle, queue=WorkQueue(first=0.001, monotonic=lambda: clock))
    loop.add("n1")
    async with running(loop):
        await until(lambda: loop.failures == 1)
        clock = 106.0
        loop.add("n1")
        loop.add("n2")
        await until(lambda: len(tries) == 2)  # n2's: n1 waits on
        clock = 107.5
        loop.add("n1")
        await until(lambda: len(tries) == 3)
    assert tries == [100.0, 106.0, 107.5]


async def test_a_defect_costs_its_key_alone_and_is_told_by_its_type():
    told: list[str] = []
    done: list[str] = []

    async def handle(key: str) -> None:
        if key == "bad":
            raise KeyError("spec")
        done.append(key)

    loop = quick(handle, told)
    loop.add("bad")
    loop.add("good")
    async with running(loop):
        await until(lambda: done == ["good"] and loop.failures > 1)
    assert told == ["node_slo: bad: KeyError: 'spec'; retried with growing waits"]


async def test_what_was_under_way_when_it_was_cancelled_is_due_again():
    begun: list[str] = []

    async def handle(key: str) -> None:
        begun.append(key)
        if len(begun) == 1:
            await anyio.sleep_forever()

    loop = quick(handle)
    loop.add("n1")
    async with running(loop) as task:
        await until(lambda: begun == ["n1"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with running(loop):
        await until(lambda: begun == ["n1", "n1"])


async def test_a_key_comes_when_it_is_due():
    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    loop = quick(handle)
    loop.add("later", after=0.02)
    loop.add("never", after=3600)
    loop.add("now")
    async with running(loop):
        await until(lambda: len(done) == 2)
    assert done == ["now", "later"]
    assert len(loop) == 1


async def test_that_others_lead_is_nothing_to_be_told():
    told: list[str] = []

    async def handle(key: str) -> None:
        raise NotLeadingError(f"nodes {key}: not written")

    loop = quick(handle, told)

    loop.add("n1")
    async with running(loop):
        await until(lambda: loop.failures > 1)
    assert told == []


async def test_one_that_hangs_is_cancelled_at_its_deadline_and_retried():
    calls: list[str] = []
    told: list[str] = []

    async def handle(key: str) -> None:
        calls.append(key)
        if len(calls) == 1:
            await anyio.sleep_forever()

    loop = quick(handle, told, workers=1, deadline=0.01)
    loop.add("n1")
    async with running(loop):
        await until(lambda: loop.handled == 1)
    assert (calls, loop.failures) == (["n1", "n1"], 1)
    assert "not done within 0.01 s" in told[0]


async def test_retries_of_all_keys_together_are_slowed_down():
    """The first 1000 only by their own backoff, then 100 a second."""
    queue = WorkQueue(first=0.001, cap=0.002, monotonic=lambda: 0.0, chance=lambda: 1.0)
    for number in range(1010):
        queue.add(f"n{number}")
        queue.retry(await queue.get())
    assert queue._schedule._not_before["n999"] == pytest.approx(0.001)
    assert queue._schedule._not_before["n1009"] == pytest.approx(0.1)
