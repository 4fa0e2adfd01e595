"""Writes over HTTP/2 to a server made of the h2 library, through real TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings
from koord_kube.answers import Answer
from koord_kube.client import Cluster
from koord_kube.credentials import server_context
from koord_kube.http2_writer import Http2UnsupportedError, Http2Writer
from koord_kube.protocol.api import ApiError, ConflictError, InvalidRequestError, NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS
from koord_wire.frames import GOAWAY, frame

from tests.support.certificates import Certificates, make_certificates
from tests.support.processes import PATIENCE
from tests.support.waiting import until

ServerAnswer = tuple[int, dict[str, str], Any]
CREATED: ServerAnswer = (201, {}, {"kind": "Status", "status": "Success"})


class Http2Server:
    """Answers writes by ``script`` in turn, else with 201; ``held`` requests get no answer yet."""

    def __init__(self) -> None:
        self.script: list[ServerAnswer] = []
        self.hold = False
        self.requests: list[dict[str, Any]] = []
        self.resets = 0
        self.mute = False
        self.streams = 100
        self.connections: list[_ServerConnection] = []

    async def start(self, context: ssl.SSLContext) -> str:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _ServerConnection(self), "127.0.0.1", 0, ssl=context
        )
        self._server = server
        return f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for one in self.connections:
            one.transport.abort()
        await asyncio.sleep(0)


class _ServerConnection(asyncio.Protocol):
    def __init__(self, server: Http2Server) -> None:
        self.server = server
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        allowed = {SettingCodes.MAX_CONCURRENT_STREAMS: server.streams}
        self.h2.local_settings = Settings(client=False, initial_values=allowed)
        self.open: dict[int, dict[str, Any]] = {}
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections.append(self)
        self.h2.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            match event:
                case RequestReceived():
                    self.open[event.stream_id] = {"headers": dict(event.headers), "body": b""}
                case DataReceived():
                    self.open[event.stream_id]["body"] += event.data
                    size = event.flow_controlled_length
                    self.h2.acknowledge_received_data(size, event.stream_id)
                case StreamReset():
                    self.server.resets += 1
                case StreamEnded():
                    self.server.requests.append(self.open[event.stream_id])
                    if not self.server.hold:
                        self.answer(event.stream_id)
        self.flush()

    def answer(self, stream: int) -> None:
        status, headers, body = self.server.script.pop(0) if self.server.script else CREATED
        self.h2.send_headers(stream, [(":status", str(status)), *headers.items()])
        self.h2.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self.flush()

    def flush(self) -> None:
        if not self.server.mute:
            self.transport.write(self.h2.data_to_send())

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def server() -> AsyncIterator[Http2Server]:
    made = Http2Server()
    yield made
    await made.stop()


Connect = Callable[..., Any]


@pytest.fixture
async def connect(server: Http2Server, certificates: Certificates) -> AsyncIterator[Connect]:
    """Makes a writer; the server begins with the first."""
    made: list[Http2Writer] = []

    async def new(*, protocol: str = "h2", deadline: float = PATIENCE, **more: Any) -> Http2Writer:
        context = certificates.server_context()
        context.set_alpn_protocols([protocol])
        url = await server.start(context)
        ours = partial(server_context, certificates.authority)
        cluster = Cluster(url, more.pop("credentials", Tokens()), new_context=ours)
        made.append(Http2Writer(cluster, deadline=deadline, **more))
        return made[-1]

    yield new
    for one in made:
        await one.close()


class Tokens:
    """A new token each time the last is refused."""

    def __init__(self) -> None:
        self.number = 1

    async def header(self, *, anew: bool = False) -> str:
        self.number += anew
        return f"Bearer token-{self.number}"


async def outcome(writer: Http2Writer, request: Request) -> bytes | ApiError:
    try:
        return await writer.write(request)
    except ApiError as error:
        return error


def name(request: dict[str, Any]) -> str:
    """The object's name in a request that arrived."""
    return str(request["headers"][":path"].split("/")[6])


def binding(name: str = "web-1", node: str = "n1") -> Request:
    body = {"kind": "Binding", "target": {"name": node}}
    return Request("POST", PODS, name, "team", "binding", body)


async def test_a_write_arrives_as_it_is(server: Http2Server, connect: Connect) -> None:
    writer = await connect()
    assert json.loads(await writer.write(binding())) == CREATED[2]
    await writer.write(
        Request("PATCH", PODS, "web-1", "team", body={}, query={"fieldManager": "a b"})
    )
    await writer.write(Request("DELETE", PODS, "web-1", "team"))
    heads = [one["headers"] for one in server.requests]
    assert [(one[":method"], one[":path"], one.get("content-type")) for one in heads] == [
        ("POST", "/api/v1/namespaces/team/pods/web-1/binding", "application/json"),
        (
            "PATCH",
            "/api/v1/namespaces/team/pods/web-1?fieldManager=a+b",
            "application/merge-patch+json",
        ),
        ("DELETE", "/api/v1/namespaces/team/pods/web-1", None),
    ]
    assert {one["authorization"] for one in heads} == {"Bearer token-1"}
    assert json.loads(server.requests[0]["body"])["target"] == {"name": "n1"}


async def test_many_at_a_time_on_one_connection(server: Http2Server, connect: Connect) -> None:
    server.streams = 7
    writer = await connect()
    await asyncio.gather(*(writer.write(binding(f"p{number}")) for number in range(50)))
    assert [name(one) for one in server.requests] == [f"p{number}" for number in range(50)]
    assert len(server.connections) == 1


async def test_refusals_are_the_apis_errors(server: Http2Server, connect: Connect) -> None:
    status = {"kind": "Status", "status": "Failure", "message": "it is bound", "code": 409}
    server.script = [(409, {}, status), (429, {"retry-after": "7"}, {"message": "later"})]
    writer = await connect()
    with pytest.raises(ConflictError, match="it is bound"):
        await writer.write(binding())
    with pytest.raises(ApiError) as raised:
        await writer.write(binding())
    assert (raised.value.status, raised.value.retry_after) == (429, 7.0)


async def test_a_refused_token_is_replaced_once(server: Http2Server, connect: Connect) -> None:
    server.script = [(401, {}, {}), CREATED, (401, {}, {}), (401, {}, {"message": "token-3"})]
    writer = await connect()
    await writer.write(binding())
    with pytest.raises(ApiError) as raised:
        await writer.write(binding())
    assert raised.value.status == 401
    assert "token-3" not in str(raised.value)
    tokens = [one["headers"]["authorization"][-1] for one in server.requests]
    assert tokens == ["1", "2", "2", "3"]


async def test_no_answer_in_time(server: Http2Server, connect: Connect) -> None:
    server.hold = True
    writer = await connect(deadline=0.5)
    with pytest.raises(ApiError, match="no answer in time"):
        await writer.write(binding())
    await until(lambda: server.resets == 1)


@pytest.mark.parametrize("mute", [False, True], ids=["answers nothing", "says nothing at all"])
async def test_a_hung_connection_is_left(server: Http2Server, connect: Connect, mute: bool) -> None:
    """Its TCP lives, and where a load balancer has it, also HTTP/2 itself."""
    server.hold, server.mute = True, mute
    writer = await connect(deadline=0.5)
    for _ in range(1 + mute):  # the first of a mute one does not leave, and says less
        assert isinstance(await outcome(writer, binding("lost")), ApiError)
    server.hold = server.mute = False
    assert isinstance(await outcome(writer, binding()), bytes)
    assert len(server.connections) == 2
    await until(server.connections[0].lost.is_set)


async def test_writes_on_a_connection_that_is_left_may_still_be_answered(
    server: Http2Server, connect: Connect
) -> None:
    server.hold = True
    writer = await connect(deadline=1.0)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(outcome(writer, binding("first")))
        await asyncio.sleep(0.5)
        second = group.create_task(outcome(writer, binding("second")))
        await until(first.done)
        assert not writer._connection or not writer._connection.usable
        server.connections[0].answer(3)
    assert isinstance(second.result(), bytes)


async def test_one_slow_write_among_others_costs_no_connection(
    server: Http2Server, connect: Connect
) -> None:
    server.hold = True
    writer = await connect(deadline=0.5)
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(outcome(writer, binding("slow")))
        await until(lambda: server.requests)
        server.hold = False
        await writer.write(binding("quick"))
    assert isinstance(slow.result(), ApiError)
    await writer.write(binding("quick again"))
    assert len(server.connections) == 1


async def test_a_lost_connection_fails_what_is_under_way(
    server: Http2Server, connect: Connect
) -> None:
    server.hold = True
    writer = await connect()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(outcome(writer, binding()))
        await until(lambda: server.requests)
        server.connections[0].transport.abort()
    assert isinstance(waiting.result(), ApiError)
    server.hold = False
    await writer.write(binding())
    assert len(server.connections) == 2


async def test_what_was_not_processed_is_sent_again(server: Http2Server, connect: Connect) -> None:
    server.hold = True
    writer = await connect()
    async with asyncio.TaskGroup() as group:
        group.create_task(outcome(writer, binding("first")))
        await until(lambda: server.requests)
        second = group.create_task(outcome(writer, binding("second")))
        await until(lambda: len(server.requests) == 2)
        server.hold = False
        old = server.connections[0]
        old.h2.send_headers(1, [(":status", "201")], end_stream=True)
        old.h2.close_connection(last_stream_id=1)
        old.flush()
    assert isinstance(second.result(), bytes)
    assert len(server.connections) == 2
    assert [name(one) for one in server.requests] == ["first", "second", "second"]


async def test_an_old_connections_answer_touches_no_write_on_the_next(
    server: Http2Server, connect: Connect
) -> None:
    server.hold = True
    writer = await connect(deadline=5.0)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(outcome(writer, binding("first")))
        await until(lambda: server.requests)
        old = server.connections[0]
        old.h2.send_headers(1, [(":status", "201")])
        old.flush()
        old.transport.write(frame(GOAWAY, 0, 0, b"\0\0\0\1" + bytes(4)))
        await until(lambda: not writer._connection or not writer._connection.usable)
        second = group.create_task(outcome(writer, binding("second")))
        await until(lambda: len(server.requests) == 2)
        old.h2.send_data(1, b"{}", end_stream=True)
        old.flush()
        await until(first.done)
        server.connections[1].answer(1)
    assert isinstance(first.result(), bytes)
    assert isinstance(second.result(), bytes)
    assert not server.resets


async def test_only_who_leads_writes(server: Http2Server, connect: Connect) -> None:
    """Also what waited for its turn when it still led."""
    leads, server.streams, server.hold = True, 1, True
    writer = await connect(leads=lambda: leads)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(outcome(writer, binding("first")))
        await until(lambda: server.requests)
        second = group.create_task(outcome(writer, binding("second")))
        await asyncio.sleep(0)
        leads = False
        server.connections[0].answer(1)
    assert isinstance(first.result(), bytes)
    assert isinstance(second.result(), NotLeadingError)
    assert len(server.requests) == 1


async def test_a_cancelled_write_is_withdrawn(server: Http2Server, connect: Connect) -> None:
    server.streams, server.hold = 1, True
    writer = await connect()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(outcome(writer, binding("first")))
        await until(lambda: server.requests)
        second = group.create_task(outcome(writer, binding("second")))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
    await until(lambda: server.resets == 1)
    assert len(server.requests) == 1


async def test_a_server_without_http2(server: Http2Server, connect: Connect) -> None:
    """It is offered what it has, else servers other than Python's would end the handshake."""
    writer = await connect(protocol="http/1.1")
    with pytest.raises(Http2UnsupportedError):
        await writer.write(binding())
    spoken = server.connections[0].transport.get_extra_info("ssl_object")
    assert spoken.selected_alpn_protocol() == "http/1.1"


async def test_a_server_that_is_not_trusted(
    server: Http2Server, connect: Connect, tmp_path: Path
) -> None:
    writer = await connect()
    other = make_certificates(tmp_path)
    cluster = Cluster(writer._cluster.url, new_context=partial(server_context, other.authority))
    with pytest.raises(ApiError, match="certificate"):
        await Http2Writer(cluster).write(binding())
    assert not server.requests


@pytest.mark.parametrize(
    "cluster",
    [Cluster("http://api"), Cluster("https://api", new_context=server_context, proxy="http://p")],
)
def test_a_cluster_that_cannot_be_asked_by_http2(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="HTTP/2"):
        Http2Writer(cluster)


async def test_an_answer_comes_after_submit_never_within(
    server: Http2Server, connect: Connect
) -> None:
    """``settle`` may submit the next write; a write that is never sent has an answer, too."""
    leads = True
    writer = await connect(leads=lambda: leads)
    await writer.write(binding())
    answers: list[Answer] = []
    writer.submit(Request("PATCH", PODS, "../nodes", "team", body={}), answers.append)
    leads = False
    writer.submit(binding(), answers.append)
    assert not answers
    await until(lambda: len(answers) == 2)
    assert [type(answer) for answer in answers] == [InvalidRequestError, NotLeadingError]
    assert len(server.requests) == 1


async def test_what_is_submitted_when_it_is_closed_fails(connect: Connect) -> None:
    writer = await connect()
    await writer.write(binding())
    await writer.close()
    assert "closed" in str(await outcome(writer, binding()))


async def test_without_a_token_writes_fail(connect: Connect) -> None:
    class NoToken:
        async def header(self, *, anew: bool = False) -> str:
            raise OSError("/token: No such file or directory")

    writer = await connect(credentials=NoToken())
    found = await outcome(writer, binding())
    assert isinstance(found, ApiError)
    assert "/token: No such file" in str(found)


async def test_the_token_is_asked_for_again_after_a_while(
    server: Http2Server, connect: Connect
) -> None:
    tokens = Tokens()
    writer = await connect(credentials=tokens)
    await writer.write(binding())
    tokens.number = 7
    await writer.write(binding())
    writer._header_until = 0.0
    await writer.write(binding())
    assert [one["headers"]["authorization"][-1] for one in server.requests] == ["1", "1", "7"]
