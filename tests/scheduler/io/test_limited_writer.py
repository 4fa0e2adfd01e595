"""Writes wait for their turn, and for a server that has too much to do."""

from __future__ import annotations

import anyio
import pytest
from koord_kube.protocol.api import ApiError, ConflictError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS
from koord_scheduler.io import limited_writer
from koord_scheduler.io.limited_writer import LimitedWriter

from tests.support.waiting import until

REQUEST = Request("PATCH", PODS, "p", "shop")


async def test_so_many_are_under_way_at_a_time() -> None:
    under_way, release = [0], anyio.Event()

    async def write(_: Request) -> bytes:
        under_way[0] += 1
        await release.wait()
        return b"{}"

    writer = LimitedWriter(write, streams=3)
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(writer.write, REQUEST)
        await until(lambda: writer.unsent == 10, "all writes are there")
        await anyio.wait_all_tasks_blocked()
        assert under_way == [3]
        release.set()
    assert (under_way, writer.unsent) == ([10], 0)


async def test_it_waits_as_the_server_asks_and_then_sends_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limited_writer, "FIRST_PAUSE", 0.001)
    answers = [ApiError("busy", 429), ApiError("busy", 429), b"{}", ConflictError("changed", 409)]

    async def write(_: Request) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    writer = LimitedWriter(write)
    assert await writer.write(REQUEST) == b"{}"
    with pytest.raises(ConflictError):
        await writer.write(REQUEST)
    assert writer.unsent == 0
