"""Writes that may be late or lost: they wait, are tried again, or dropped."""

from __future__ import annotations

import anyio
import pytest
from koord_kube import background_writer
from koord_kube.answers import Answer, Settle
from koord_kube.background_writer import LONGEST_DELAY_SECONDS, BackgroundWriter
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import EVENTS
from koord_kube.shared_backoff import SharedBackoff

from tests.support.waiting import until

AWAY, BUSY = ApiError("away"), ApiError("too many", 429)
REFUSED = ApiError("refused", 403)
WRITTEN = b"{}"


def event(number: int = 0, size: int = 0) -> Request:
    return Request("POST", EVENTS, "", f"ns-{number}", encoded=b"x" * size)


class Submitter:
    """Answers by ``script``, at once; then with what is left of it."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.sent: list[str] = []

    def submit(self, request: Request, settle: Settle) -> anyio.CancelScope:
        self.sent.append(request.namespace)
        settle(self.script.pop(0) if len(self.script) > 1 else self.script[0])
        return anyio.CancelScope()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_writer, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(background_writer, "_LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(background_writer, "_BUSY_SECONDS", 0.001)


@pytest.mark.parametrize(
    ("script", "tries", "counts", "warnings"),
    [
        ([WRITTEN], 2, {"written": 2}, []),
        ([AWAY, BUSY, WRITTEN], 4, {"written": 2}, []),
        ([AWAY], 6, {"failed": 2}, ["away"]),
        ([REFUSED], 2, {"failed": 2}, ["refused"]),
        ([REFUSED, WRITTEN], 2, {"failed": 1, "written": 1}, ["refused"]),
        ([ConflictError("there", 409), WRITTEN], 2, {"failed": 1, "written": 1}, ["there"]),
        ([NotFoundError("gone", 404)], 2, {"failed": 2}, []),
        ([NotLeadingError("stands by")], 2, {"failed": 2}, []),
    ],
)
async def test_what_the_server_has_no_time_for_is_tried_a_few_times(
    script: list[Answer], tries: int, counts: dict[str, int], warnings: list[str]
) -> None:
    submitter, said = Submitter(*script), list[str]()
    writer = BackgroundWriter(submitter.submit, SharedBackoff(), on_warning=said.append)
    for number in range(2):
        writer.put(event(number))
    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        await until(lambda: sum(writer.counts.values()) == 2)
        group.cancel_scope.cancel()
    assert (writer.counts, len(submitter.sent), said) == (counts, tries, warnings)


async def test_beyond_a_size_the_oldest_are_dropped() -> None:
    submitter = Submitter(WRITTEN)
    writer = BackgroundWriter(submitter.submit, SharedBackoff(), most_bytes=8000)
    for number in range(4):
        writer.put(event(number, 2500))
    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        await until(lambda: writer.counts["written"] == 2)
        group.cancel_scope.cancel()
    assert (writer.counts["dropped"], submitter.sent) == (2, ["ns-2", "ns-3"])


async def test_they_wait_while_others_are_busy_but_not_for_ever() -> None:
    now, submitter = 0.0, Submitter(WRITTEN)
    writer = BackgroundWriter(
        submitter.submit, SharedBackoff(), busy=lambda: True, monotonic=lambda: now
    )
    writer.put(event())
    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        await anyio.sleep(0.01)
        assert not submitter.sent
        now = LONGEST_DELAY_SECONDS
        await until(lambda: bool(submitter.sent))
        group.cancel_scope.cancel()


async def test_so_many_are_under_way_at_a_time() -> None:
    settles: list[Settle] = []

    def submit(_: Request, settle: Settle) -> anyio.CancelScope:
        settles.append(settle)
        return anyio.CancelScope()

    writer = BackgroundWriter(submit, SharedBackoff())
    for number in range(40):
        writer.put(event(number))
    async with anyio.create_task_group() as group:
        group.start_soon(writer.run)
        await anyio.wait_all_tasks_blocked()
        assert len(settles) == 32
        settles[0](WRITTEN)
        await until(lambda: len(settles) == 33)
        group.cancel_scope.cancel()
