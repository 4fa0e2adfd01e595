"""Writes wait for their turn, and for a server that has too much to do."""

from __future__ import annotations

import anyio
import pytest
from koord_kube.answers import Answer, Settle
from koord_kube.protocol.api import ApiError, ConflictError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS
from koord_scheduler.io import limited_writer
from koord_scheduler.io.limited_writer import LimitedWriter

from tests.support.waiting import until

REQUEST = Request("PATCH", PODS, "p", "shop")


class HeldSubmitter:
    """Keeps what is submitted, until the test answers it."""

    def __init__(self) -> None:
        self.settles: list[Settle] = []

    def submit(self, _: Request, settle: Settle) -> HeldSubmitter:
        self.settles.append(settle)
        return self

    def cancel(self) -> None:
        raise AssertionError("what is under way is not taken back")

    def answer(self, answer: Answer) -> None:
        self.settles.pop(0)(answer)


def test_so_many_are_under_way_at_a_time_and_the_others_in_order() -> None:
    held, answers = HeldSubmitter(), list[Answer]()
    writer = LimitedWriter(held.submit, streams=3)
    turns = [writer.submit(REQUEST, answers.append) for _ in range(10)]
    assert (len(held.settles), writer.unsent) == (3, 10)
    turns[9].cancel()
    assert writer.unsent == 9
    sent = [b"%d" % number for number in range(9)]
    for answer in sent:
        held.answer(answer)
    assert (answers, writer.unsent, held.settles) == (sent, 0, [])


async def test_it_waits_as_the_server_asks_and_then_sends_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It keeps its turn meanwhile."""
    monkeypatch.setattr(limited_writer, "FIRST_PAUSE", 0.001)
    held, answers = HeldSubmitter(), list[Answer]()
    writer = LimitedWriter(held.submit, streams=1)
    for _ in range(2):
        writer.submit(REQUEST, answers.append)
    conflict = ConflictError("changed", 409)
    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        for _ in range(2):
            held.answer(ApiError("busy", 429))
            await until(lambda: held.settles, "it is sent again")
        for answer in (b"{}", conflict):
            held.answer(answer)
        group.cancel_scope.cancel()
    assert (answers, writer.unsent) == ([b"{}", conflict], 0)
