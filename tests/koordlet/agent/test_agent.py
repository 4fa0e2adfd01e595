"""The agent's loops: a defect in one costs nothing of the others."""

from __future__ import annotations

import asyncio

from koordlet.agent import agent


async def _group_that_fails(error: Exception) -> None:
    async def fail() -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())


async def test_a_loop_with_a_defect_begins_anew(monkeypatch, caplog):
    monkeypatch.setattr(agent, "_AGAIN_SECONDS", 0.0)
    defects = [KeyError("status"), RuntimeError("oh")]

    async def loop() -> None:
        if defects:
            await _group_that_fails(defects.pop())

    await agent._run_forever(loop)
    reasons = [record.fields["reason"] for record in caplog.records]  # type: ignore[attr-defined]
    assert reasons == ["RuntimeError: oh", "KeyError: 'status'"]


async def test_a_loop_that_ends_by_itself_is_left():
    runs = []

    async def loop() -> None:
        runs.append(1)

    await agent._run_forever(loop)
    assert runs == [1]
