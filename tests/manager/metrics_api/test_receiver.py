from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.api import ApiError
from koord_manager.metrics_api.receiver import (
    LEADER_KEY,
    SERVER_OPTIONS,
    SERVICE,
    Receiver,
    Standing,
    _object,
)
from koord_proto.node_metric_pb2 import ReportRequest, ReportResponse

from tests.support.processes import PATIENCE

STATUS = b'{"updateTime":"2026-11-20T10:00:00Z"}'


class Manager:
    """A receiver on loopback, and a node that talks to it."""

    def __init__(self) -> None:
        self.standing = Standing(leads=True)
        self.now = 100.0
        self.refusal = ""
        self.asked: list[tuple[str, str]] = []
        self.heard: list[tuple[str, bytes, float]] = []
        self.receiver = Receiver(
            lambda: self.standing,
            self._admit,
            received=lambda *one: self.heard.append(one),
            capacity=2,
            monotonic=lambda: self.now,
        )

    async def _admit(self, token: str, node: str) -> str:
        self.asked.append((token, node))
        return self.refusal

    async def report(
        self, node: str = "n1", session: str = "s", sequence: int = 1, **more: Any
    ) -> ReportResponse:
        token = more.pop("token", "")
        request = ReportRequest(
            node=node,
            session=session,
            sequence=sequence,
            reported_at_ms=1_500,
            status=more.pop("status", STATUS),
        )
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        call = self.channel.unary_unary(
            f"/{SERVICE}/Report",
            request_serializer=ReportRequest.SerializeToString,
            response_deserializer=ReportResponse.FromString,
        )
        answer: ReportResponse = await call(
            request, timeout=PATIENCE, metadata=metadata, compression=grpc.Compression.Gzip
        )
        return answer

    async def refused(self, code: grpc.StatusCode, **more: Any) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.report(**more)
        assert caught.value.code() is code
        return caught.value

    channel: grpc.aio.Channel


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    made = Manager()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    made.receiver.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        made.channel = channel
        yield made
    await server.stop(None)


async def test_each_report_is_told_on_with_when_it_came(manager: Manager) -> None:
    await manager.report(sequence=1)
    manager.now = 110.0
    await manager.report("n2", sequence=5, status=b' {"a":\r\n[1,\n2]} ')
    await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, status=b"no", sequence=6)
    assert manager.heard == [("n1", STATUS, 100.0), ("n2", b'{"a":  [1, 2]}', 110.0)]


async def test_the_same_report_again_is_taken_an_older_one_is_not(manager: Manager) -> None:
    await manager.report(sequence=5)
    await manager.report(sequence=5)
    error = await manager.refused(grpc.StatusCode.ABORTED, sequence=4)
    assert error.details() == "n1: report 4 is older than 5"
    await manager.report(sequence=6)


async def test_a_new_session_begins_anew_and_ends_the_one_before(manager: Manager) -> None:
    await manager.report(session="a", sequence=9)
    await manager.report(session="b", sequence=1)
    await manager.refused(grpc.StatusCode.ABORTED, session="a", sequence=10)
    await manager.report(session="b", sequence=2)
    await manager.refused(grpc.StatusCode.ABORTED, session="a", sequence=11)
    assert len(manager.heard) == 3


async def test_of_a_node_that_was_forgotten_an_older_session_is_taken(manager: Manager) -> None:
    await manager.report(session="a", sequence=9)
    await manager.report(session="b", sequence=1)
    manager.receiver.forget("n1")
    await manager.report(session="a", sequence=1)


async def test_who_does_not_lead_says_who_does_and_forgets(manager: Manager) -> None:
    await manager.report(sequence=9)
    manager.standing = Standing(leads=False, leader="10.0.0.2:9317")
    error = await manager.refused(grpc.StatusCode.FAILED_PRECONDITION)
    assert (LEADER_KEY, "10.0.0.2:9317") in tuple(error.trailing_metadata() or ())
    assert manager.receiver.bytes == 0
    manager.standing = Standing(leads=False)
    error = await manager.refused(grpc.StatusCode.FAILED_PRECONDITION)
    assert LEADER_KEY not in dict(tuple(error.trailing_metadata() or ()))
    manager.standing = Standing(leads=True)
    await manager.report(sequence=1)


@pytest.mark.parametrize(
    "bad",
    [{"node": ""}, {"session": ""}, {"status": b"no"}, {"status": b"[]"}, {"status": b"[" * 99999}],
)
async def test_what_is_no_report_is_refused(manager: Manager, bad: dict[str, Any]) -> None:
    await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, **bad)
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_who_is_not_admitted_is_refused(manager: Manager) -> None:
    manager.refusal = "the token is of another node"
    error = await manager.refused(grpc.StatusCode.PERMISSION_DENIED, token="t")
    assert error.details() == "the token is of another node"
    assert manager.asked == [("t", "n1")]
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_only_so_many_nodes_are_taken_those_that_are_forgotten_make_room(
    manager: Manager,
) -> None:
    await manager.report("n1")
    await manager.report("n2")
    error = await manager.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, node="n3")
    assert error.details() == "2 nodes are kept, which is all there is room for"
    await manager.report("n1", sequence=2)
    manager.receiver.forget("n1")
    await manager.report("n3")
    await manager.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, node="n1")
    assert [node for node, _, _ in manager.heard] == ["n1", "n2", "n1", "n3"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"{}x",
        b"null",
        b'"{}"',
        b'{"a":"\xff"}',
        b'{"a":"\n"}',
        b'{"a":NaN}',
        b"\xef\xbb\xbf{}",
    ],
)
async def test_what_would_break_the_json_around_it_is_refused(manager: Manager, bad: bytes) -> None:
    await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, status=bad)


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(
        lambda one: json.dumps(one, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )
)
def test_what_is_taken_is_an_object_on_one_line_that_means_the_same(given_: bytes) -> None:
    taken = _object(given_)
    if taken:
        assert b"\n" not in taken
        assert b"\r" not in taken
        found = json.loads(taken)
        assert isinstance(found, dict)
        assert found == json.loads(given_)


async def test_only_so_many_bytes_are_kept(manager: Manager) -> None:
    manager.receiver._most_bytes = 100
    await manager.report("n1", status=b'{"a":"%b"}' % (b"x" * 50))
    error = await manager.refused(
        grpc.StatusCode.RESOURCE_EXHAUSTED, node="n2", status=b'{"a":"%b"}' % (b"x" * 50)
    )
    assert error.details() == "100 bytes are kept, which is all there is room for"
    await manager.report("n1", sequence=2, status=b"{}")
    await manager.report("n2", status=b'{"a":"%b"}' % (b"x" * 50))
    newest = {node: status for node, status, _ in manager.heard}
    assert manager.receiver.bytes == sum(map(len, newest.values()))
    manager.receiver.forget("n2")
    assert manager.receiver.bytes == 2


async def test_who_loses_the_leadership_while_asking_about_a_token_keeps_nothing(
    manager: Manager,
) -> None:
    admit = manager.receiver._admit

    async def slow(token: str, node: str) -> str:
        manager.standing = Standing(leads=False)
        return await admit(token, node)

    manager.receiver._admit = slow
    await manager.refused(grpc.StatusCode.FAILED_PRECONDITION)
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_where_nobody_can_say_whose_a_token_is(manager: Manager) -> None:
    async def away(_token: str, _node: str) -> str:
        raise ApiError("nobody answers")

    manager.receiver._admit = away
    error = await manager.refused(grpc.StatusCode.UNAVAILABLE)
    assert "nobody answers" in (error.details() or "")


async def test_a_report_that_is_small_only_on_the_way_is_refused(manager: Manager) -> None:
    """Sixteen mebibytes, and a few kilobytes as sent."""
    large = b'{"a":"%b"}' % (b"x" * (16 << 20))
    await manager.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, status=large)
    assert (manager.heard, manager.receiver.bytes) == ([], 0)
