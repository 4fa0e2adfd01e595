"""A queue of keys and its workers, through failures and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from koord_kube.api import ApiError, NotLeadingError
from koord_manager.controllers.queue import WorkQueue

from tests.support.processes import PATIENCE


@asynccontextmanager
async def running(queue: WorkQueue, handle: Callable[[str], Awaitable[None]], workers: int = 4):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(handle, workers))
        yield task
        task.cancel()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0)


def quick(told: list[str] | None = None, first: float = 0.001) -> WorkQueue:
    tell = told.append if told is not None else (lambda _line: None)
    return WorkQueue("node_slo", tell=tell, first=first, cap=0.002, chance=lambda: 1.0)


async def test_every_key_is_handled_also_those_added_before_it_runs():
    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    queue = quick()
    for number in range(100):
        queue.add(f"n{number % 50}")
    async with running(queue, handle):
        await until(lambda: len(done) == 50)
        queue.add("late")
        await until(lambda: done[-1] == "late")
    assert len(set(done)) == len(done) == queue.handled
    assert len(queue) == 0


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

    queue = quick()
    for key in "abcd":
        queue.add(key)
    async with running(queue, handle, workers=3):
        await until(lambda: len(under_way) == 3)
        queue.add("a")
        queue.add("a")
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

    queue = quick(told)
    for number in range(20):
        queue.add(f"n{number}")
    async with running(queue, handle):
        await until(lambda: queue.failures > 60)
        assert len(told) == 1
        assert "node_slo: n0: patch nodeslos n0: HTTP 503" in told[0]
        assert queue.trouble.startswith("node_slo: 20 to be retried; n")
        bad = False
        await until(lambda: len(done) == 20)
    assert told[1:] == ["node_slo: all that failed is done now"]
    assert queue.trouble == ""


async def test_what_the_server_asks_to_wait_is_waited():
    clock = 100.0
    tries: list[float] = []

    async def handle(_key: str) -> None:
        tries.append(clock)
        if len(tries) == 1:
            raise ApiError("patch nodes n1: HTTP 429", 429, retry_after=7)

    queue = WorkQueue("x", first=0.001, monotonic=lambda: clock)
    queue.add("n1")
    async with running(queue, handle):
        await until(lambda: queue.failures == 1)
        clock = 106.0
        queue.add("n1")
        queue.add("n2")
        await until(lambda: len(tries) == 2)  # n2's: n1 waits on
        clock = 107.5
        queue.add("n1")
        await until(lambda: len(tries) == 3)
    assert tries == [100.0, 106.0, 107.5]


async def test_a_defect_costs_its_key_alone_and_is_told_by_its_type():
    told: list[str] = []
    done: list[str] = []

    async def handle(key: str) -> None:
        if key == "bad":
            raise KeyError("spec")
        done.append(key)

    queue = quick(told)
    queue.add("bad")
    queue.add("good")
    async with running(queue, handle):
        await until(lambda: done == ["good"] and queue.failures > 1)
    assert told == ["node_slo: bad: KeyError: 'spec'; retried, with longer and longer waits"]


async def test_what_was_under_way_when_it_was_cancelled_is_due_again():
    begun: list[str] = []

    async def hang(key: str) -> None:
        begun.append(key)
        await asyncio.Event().wait()

    async def handle(key: str) -> None:
        begun.append(key)

    queue = quick()
    queue.add("n1")
    async with running(queue, hang) as task:
        await until(lambda: begun == ["n1"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with running(queue, handle):
        await until(lambda: begun == ["n1", "n1"])


async def test_a_key_comes_when_it_is_due():
    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    queue = quick()
    queue.add("later", after=0.02)
    queue.add("never", after=3600)
    queue.add("now")
    async with running(queue, handle):
        await until(lambda: len(done) == 2)
    assert done == ["now", "later"]
    assert len(queue) == 1


async def test_that_others_lead_is_nothing_to_be_told():
    told: list[str] = []
    queue = quick(told)

    async def handle(key: str) -> None:
        raise NotLeadingError(f"nodes {key}: not written")

    queue.add("n1")
    async with running(queue, handle):
        await until(lambda: queue.failures > 1)
    assert told == []
