from __future__ import annotations

import asyncio
import logging

import pytest
from koord_kube.protocol.api import ApiError
from koord_service.backoff import Backoff
from koord_service.logs import get_log
from koord_serving import periodic as module
from koord_serving.periodic import run_periodically

from tests.support.processes import PATIENCE

log = get_log("test")


class Duty:
    """Counts its rounds; the first ones fail as ``failing`` says."""

    def __init__(self, *failing: str) -> None:
        self.failing = list(failing)
        self.done = 0
        self.wake = asyncio.Event()
        self._again = asyncio.Condition()

    async def once(self) -> float:
        if self.failing:
            raise ApiError(self.failing.pop(0), 500)
        async with self._again:
            self.done += 1
            self._again.notify_all()
        return 3600.0

    async def reach(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE), self._again:
            await self._again.wait_for(lambda: self.done >= times)


async def test_it_runs_at_once_when_woken_even_while_it_runs() -> None:
    duty = Duty()
    calls = 0

    async def once() -> float:
        nonlocal calls
        calls += 1
        if calls == 1:
            duty.wake.set()
        return await duty.once()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_periodically(once, duty.wake, log))
        await duty.reach(2)
        duty.wake.set()
        await duty.reach(3)
        running.cancel()


async def test_trouble_of_the_api_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "Backoff", lambda *_: Backoff(0.001, 0.001))
    duty = Duty("no", "no", "never")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_periodically(duty.once, duty.wake, log))
        await duty.reach(1)
        running.cancel()
    warned = [one.__dict__["fields"] for one in caplog.records if one.levelno == logging.WARNING]
    assert warned == [{"error": "no"}, {"error": "never"}]


async def test_any_other_error_ends_it() -> None:
    async def once() -> float:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await run_periodically(once, asyncio.Event(), log)
    assert caught.group_contains(ZeroDivisionError)
