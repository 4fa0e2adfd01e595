"""Answers at the end of a connection, where moments matter."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from koord_proto import nri_pb2 as pb
from koordlet.runtime_hooks.nri.call_server import CallServer, NriCounts
from koordlet.runtime_hooks.nri.protocol.events import IncomingCall
from koordlet.runtime_hooks.nri.protocol.handler import RefusedCallError
from koordlet.runtime_hooks.nri.protocol.methods import BY_NAME

from tests.koordlet.runtime_hooks.nri.conftest import Remembering

CALL = IncomingCall(5, BY_NAME["CreateContainer"], pb.CreateContainerRequest(), 2.0)


class Talk:
    """An answering, and what it answered."""

    def __init__(self, answer: Any) -> None:
        self.counts = NriCounts()
        self.answered: list[Any] = []
        self.late: list[Any] = []
        self.refused: list[str] = []
        self.answering = CallServer(
            Remembering(create_container=answer),
            self.counts,
            lambda _, response: self.answered.append(response),
            lambda _, reason: self.refused.append(reason),
            self.late.append,
        )

    async def ask(self, during: Coroutine[Any, Any, None], deadline: float) -> None:
        """Ask, let something happen, and end."""
        async with asyncio.TaskGroup() as tasks:
            self.answering.ask(CALL, deadline, tasks)
            await during
            self.answering.end()


async def nothing() -> None:
    """Let not even the loop turn."""


async def test_a_method_that_had_not_begun_is_ended_without_a_word():
    async def answer(_):
        raise AssertionError

    talk = Talk(answer)
    await talk.ask(nothing(), 60)
    assert talk.answered == []
    assert talk.counts == NriCounts(calls=1)


async def test_a_method_that_does_not_want_to_end_is_waited_for_and_not_answered_for():
    ended = asyncio.Event()

    async def answer(_):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.6)
        ended.set()
        return pb.CreateContainerResponse()

    talk = Talk(answer)
    await talk.ask(asyncio.sleep(0), 0.5)
    assert ended.is_set()
    assert (talk.answered, talk.late) == ([], [])
    assert talk.counts == NriCounts(calls=1)


async def test_a_refusal_is_an_answer_and_no_failure():
    async def answer(_):
        raise RefusedCallError("no NUMA node")

    talk = Talk(answer)
    await talk.ask(asyncio.sleep(0.01), 60)
    assert (talk.answered, talk.refused) == ([], ["no NUMA node"])
    assert talk.counts == NriCounts(calls=1)


async def test_any_awaitable_will_do():
    future = asyncio.get_running_loop().create_future()
    future.set_result(pb.CreateContainerResponse())
    talk = Talk(lambda _: future)
    await talk.ask(asyncio.sleep(0.01), 60)
    assert talk.answered == [pb.CreateContainerResponse()]


async def test_a_plain_answer_is_given_at_once():
    talk = Talk(pb.CreateContainerResponse())
    await talk.ask(nothing(), 60)
    assert talk.answered == [pb.CreateContainerResponse()]
    assert talk.counts == NriCounts(calls=1)


async def test_a_plain_method_that_holds_up_the_loop_is_reported(caplog):
    talk = Talk(pb.CreateContainerResponse())
    await talk.ask(nothing(), -1)
    assert talk.answered == [pb.CreateContainerResponse()]
    assert talk.counts == NriCounts(calls=1, late=1)
    assert "nri handler slow" in caplog.messages
