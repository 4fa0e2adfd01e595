from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from koord_kube.protocol.api import ApiError
from koord_manager.node_metric import receiver
from koord_manager.node_metric.receiver import SERVER_OPTIONS, SERVICE, NodeMetricReceiver
from koord_manager.node_metric.report_authorizer import ReportClaim
from koord_proto.node_metric_pb2 import ReportRequest, ReportResponse
from koord_serving.limits.core.concurrency_limit import ConcurrencyLimit

from tests.support.processes import PATIENCE
from tests.support.waiting import until

STATUS = b'{"updateTime":"2026-11-20T10:00:00Z"}'


class Manager:
    """A receiver on loopback, and a node that talks to it."""

    def __init__(self) -> None:
        self.leads = True
        self.now = 100.0
        self.refusal = ""
        self.asked: list[tuple[str, str]] = []
        self.reported: list[str] = []
        self.at_once = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.heard: list[tuple[str, bytes, float]] = []
        self.receiver = NodeMetricReceiver(
            lambda: self.leads,
            self._admit,
            received=lambda *one: self.heard.append(one),
            on_warning=self.reported.append,
            capacity=2,
            monotonic=lambda: self.now,
        )

    async def _admit(self, token: str, caller: str) -> ReportClaim:
        self.asked.append((token, caller))
        self.at_once += 1
        await self.goes_on.wait()
        self.at_once -= 1
        return ReportClaim(refusal=self.refusal) if self.refusal else ReportClaim(token or "n1")

    async def report(
        self, node: str = "n1", session: str = "s", sequence: int = 1, **more: Any
    ) -> ReportResponse:
        token = more.pop("token", node)
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


async def test_each_report_is_passed_on_with_when_it_came(manager: Manager) -> None:
    await manager.report(sequence=1)
    manager.now = 110.0
    await manager.report("n2", sequence=5, status=b' {"podsMetric":\r\n[\n], "a": 1} ')
    await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, status=b"no", sequence=6)
    assert manager.heard == [("n1", STATUS, 100.0), ("n2", b'{"podsMetric":[]}', 110.0)]


@pytest.mark.parametrize(
    ("reports", "taken"),
    [
        # The same report again is taken, an older one is not.
        (["s5", "s5", "s4", "s6"], "yyny"),
        # A new session begins anew, and ends the one before.
        (["a9", "b1", "a10", "b2", "a11"], "yynyn"),
        # Of a node that was forgotten an older session is taken.
        (["a9", "b1", "", "a1"], "yy-y"),
    ],
)
async def test_reports_are_taken_in_order(manager: Manager, reports: list[str], taken: str) -> None:
    for one, good in zip(reports, taken, strict=True):
        if good == "-":
            manager.receiver.forget("n1")
        elif good == "y":
            await manager.report(session=one[0], sequence=int(one[1:]))
        else:
            error = await manager.refused(
                grpc.StatusCode.ABORTED, session=one[0], sequence=int(one[1:])
            )
            assert one != "s4" or error.details() == "n1: report 4 is older than 5"
    assert len(manager.heard) == taken.count("y")


async def test_who_does_not_lead_takes_nothing_and_forgets(manager: Manager) -> None:
    await manager.report(sequence=9)
    manager.leads = False
    await manager.refused(grpc.StatusCode.FAILED_PRECONDITION)
    assert manager.receiver.bytes == 0
    manager.leads = True
    await manager.report(sequence=1)


@pytest.mark.parametrize(
    "bad",
    [
        b"no", b"[]", b"[" * 99999,
        # What would break the JSON around it.
        b"", b"{", b"{}x", b"null", b'"{}"',
        b'{"podsMetric":[{"name":"\xff"}]}', b'{"a":NaN}',
        b"\xef\xbb\xbf{}",
        # What would break the lists of those who read it.
        b'{"updateTime":5}', b'{"podsMetric":"x"}',
    ],
)  # fmt: skip
async def test_what_is_no_report_is_refused(manager: Manager, bad: bytes) -> None:
    error = await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, status=bad)
    assert (error.details() or "").startswith('NodeMetric of "n1": ')
    await manager.refused(grpc.StatusCode.INVALID_ARGUMENT, session="")
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_who_is_not_admitted_is_refused(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = await manager.refused(grpc.StatusCode.PERMISSION_DENIED, node="n2", token="n1")
    assert error.details() == 'the token is of node "n1", not of "n2"'

    async def never(*_: Any) -> None:
        raise AssertionError("the message of who is refused is not read")

    monkeypatch.setattr(NodeMetricReceiver, "_read", never)
    manager.refusal = "the token is of another node"
    error = await manager.refused(grpc.StatusCode.PERMISSION_DENIED, token="t")
    assert error.details() == "the token is of another node"
    assert manager.asked[-1] == ("t", "ipv4:127.0.0.1")
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_one_address_has_only_so_many_calls_at_once(manager: Manager) -> None:
    manager.receiver._calls = ConcurrencyLimit(3, 2)
    manager.goes_on.clear()
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(manager.report(sequence=one)) for one in (1, 2)]
    await until(lambda: manager.at_once == 2)
    await manager.refused(grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert len(manager.asked) == 2
    # Who hangs up makes room, and so does who is answered.
    calls.pop().cancel()
    await until(lambda: manager.receiver._calls.taken == 1)
    calls.append(loop.create_task(manager.report(sequence=3)))
    await until(lambda: len(manager.asked) == 3)
    manager.goes_on.set()
    await asyncio.gather(*calls)
    await manager.report(sequence=4)
    assert manager.receiver._calls.taken == 0


async def test_a_call_without_a_report_is_refused_and_takes_no_place_for_ever(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "_READ_SECONDS", 0.05)
    method = f"/{SERVICE}/Report"
    for call in (
        manager.channel.stream_unary(method),
        manager.channel.stream_unary(method)(iter(())),
        manager.channel.stream_unary(method)(iter((b"\xff",))),
    ):
        silent = call if isinstance(call, grpc.aio.StreamUnaryCall) else call()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await silent
        assert caught.value.code() in (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            grpc.StatusCode.INVALID_ARGUMENT,
        )
    assert manager.receiver._calls.taken == 0


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


async def test_only_so_many_bytes_are_kept(manager: Manager) -> None:
    manager.receiver._most_bytes = 120
    await manager.report("n1", status=b'{"podsMetric":[{"name":"%b"}]}' % (b"x" * 50))
    error = await manager.refused(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        node="n2",
        status=b'{"podsMetric":[{"name":"%b"}]}' % (b"x" * 50),
    )
    assert error.details() == "120 bytes are kept, which is all there is room for"
    await manager.report("n1", sequence=2, status=b"{}")
    await manager.report("n2", status=b'{"podsMetric":[{"name":"%b"}]}' % (b"x" * 50))
    newest = {node: status for node, status, _ in manager.heard}
    assert manager.receiver.bytes == sum(map(len, newest.values()))
    manager.receiver.forget("n2")
    assert manager.receiver.bytes == 2


async def test_who_loses_the_leadership_while_asking_about_a_token_keeps_nothing(
    manager: Manager,
) -> None:
    admit = manager.receiver._admit

    async def slow(token: str, caller: str) -> ReportClaim:
        manager.leads = False
        return await admit(token, caller)

    manager.receiver._admit = slow
    await manager.refused(grpc.StatusCode.FAILED_PRECONDITION)
    assert (manager.heard, manager.receiver.bytes) == ([], 0)


async def test_where_nobody_can_say_whose_a_token_is(manager: Manager) -> None:
    async def away(_token: str, _caller: str) -> ReportClaim:
        raise ApiError("10.0.0.1: nobody answers")

    manager.receiver._admit = away
    error = await manager.refused(grpc.StatusCode.UNAVAILABLE)
    # Unknown callers do not learn what the API server says.
    assert "nobody answers" not in (error.details() or "")
    assert manager.reported == ["10.0.0.1: nobody answers"]


async def test_a_report_that_is_small_only_on_the_way_is_refused(manager: Manager) -> None:
    """Sixteen mebibytes, and a few kilobytes as sent."""
    large = b'{"podsMetric":[{"name":"%b"}]}' % (b"x" * (16 << 20))
    await manager.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, status=large)
    assert (manager.heard, manager.receiver.bytes) == ([], 0)
