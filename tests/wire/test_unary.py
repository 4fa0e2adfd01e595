"""The client's side of HTTP/2 against the server's side of the h2 library."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings
from hypothesis import given
from hypothesis import strategies as st
from koord_wire import frames
from koord_wire.frames import ProtocolError, frame
from koord_wire.unary import CREDIT, MAX_BODY, Event, Response, StreamFailure, UnaryConnection

TOKEN = b"Bearer " + b"t" * 900


class Pair:
    """A client and an h2 server; ``cut`` is how many bytes each hears at a time."""

    def __init__(self, settings: dict[int, int] | None = None, cut: int = 1 << 20) -> None:
        self.client = UnaryConnection(b"https", b"api:6443", ((b"accept", b"application/json"),))
        self.server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.server.local_settings = Settings(client=False, initial_values=settings or {})
        self.server.initiate_connection()
        self.cut = cut
        self.requests: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.resets: list[int] = []
        self.events: list[Event] = []

    def exchange(self) -> list[Event]:
        """Let bytes go to and fro until neither has any; the client's new events."""
        self.events = []
        while True:
            up, down = self.client.take_output(), self.server.data_to_send()
            if not up and not down:
                return self.events
            for piece in _pieces(up, self.cut):
                self._serve(piece)
            for piece in _pieces(down, self.cut):
                self.events += self.client.receive(piece)

    def _serve(self, piece: bytes) -> None:
        for event in self.server.receive_data(piece):
            match event:
                case RequestReceived():
                    self.requests[event.stream_id] = dict(event.headers)
                    self.bodies[event.stream_id] = b""
                case DataReceived():
                    self.bodies[event.stream_id] += event.data
                    self.server.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                case StreamEnded():
                    self.ended.append(event.stream_id)
                case StreamReset():
                    self.resets.append(event.stream_id)

    def answer(self, stream: int, status: int = 201, body: bytes = b"{}") -> None:
        fields = [(":status", str(status)), ("audit-id", f"a-{stream}"), ("retry-after", "3")]
        self.server.send_headers(stream, fields, end_stream=not body)
        while body:
            room = self.server.local_flow_control_window(stream)
            size = min(room, self.server.max_outbound_frame_size, len(body))
            part, body = body[:size], body[size:]
            self.server.send_data(stream, part, end_stream=not body)

    def post(self, body: bytes = b"{}", token: bytes = TOKEN) -> int:
        return self.client.request(
            b"POST", b"/api/v1/pods", body, token, ((b"content-type", b"application/json"),)
        )


def _pieces(data: bytes, size: int) -> Sequence[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


bodies = st.integers(0, 70_000).map(lambda size: bytes(size % 251 for _ in range(size)))


@given(
    st.lists(st.tuples(bodies, st.integers(200, 599), bodies), min_size=1, max_size=5),
    st.integers(1, 5000),
    st.sampled_from([65_535, 1000]),
    st.sampled_from([4096, 0]),
)
def test_each_request_gets_its_answer(
    calls: list[tuple[bytes, int, bytes]], cut: int, window: int, table: int
) -> None:
    settings = {SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.HEADER_TABLE_SIZE: table}
    pair = Pair(settings, cut)
    pair.exchange()
    streams = [pair.post(body) for body, _, _ in calls]
    pair.exchange()
    assert [pair.bodies[one] for one in streams] == [body for body, _, _ in calls]
    assert {one["authorization"] for one in pair.requests.values()} == {TOKEN.decode()}
    assert pair.requests[1] == pair.requests[streams[-1]]
    answers = []
    for stream, (_, status, body) in zip(reversed(streams), reversed(calls), strict=True):
        pair.answer(stream, status, body)
        answers += pair.exchange()
    assert [one.stream for one in answers] == streams[::-1]
    got = [(one.status, one.body) for one in answers if isinstance(one, Response)]
    assert got == [(status, body) for _, status, body in reversed(calls)]
    first = answers[-1]
    assert isinstance(first, Response)
    assert first.headers() == {
        ":status": str(calls[0][1]), "audit-id": "a-1", "retry-after": "3"
    }  # fmt: skip
    assert pair.client.open_streams == 0


def test_a_token_is_sent_once_until_it_changes() -> None:
    pair = Pair()
    sizes = []
    for token in (TOKEN, TOKEN, b"Bearer other" * 60, b"Bearer other" * 60):
        pair.exchange()
        pair.post(token=token)
        output = pair.client.take_output()
        sizes.append(len(output))
        pair._serve(output)
    assert [one["authorization"][:13] for one in pair.requests.values()] == [
        "Bearer tttttt", "Bearer tttttt", "Bearer otherB", "Bearer otherB"
    ]  # fmt: skip
    assert sizes[0] > 900
    assert sizes[1] < 200
    assert sizes[2] > 700
    assert sizes[3] < 200


@pytest.mark.parametrize(("size", "is_kept"), [(4096 - 32 - 13, True), (4096 - 32 - 12, False)])
def test_a_token_larger_than_the_table_is_sent_each_time(size: int, *, is_kept: bool) -> None:
    pair = Pair()
    pair.exchange()
    pair.post(token=b"t" * size)
    pair.exchange()
    pair.post(token=b"t" * size)
    assert (len(pair.client.take_output()) < 200) is is_kept


def test_headers_larger_than_a_frame_go_in_several() -> None:
    pair = Pair()
    pair.exchange()
    stream = pair.post(token=b"t" * 40_000)
    pair.exchange()
    assert pair.requests[stream]["authorization"] == "t" * 40_000
    assert pair.bodies[stream] == b"{}"


def test_no_more_requests_than_the_server_allows() -> None:
    pair = Pair({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    pair.exchange()
    first = pair.post()
    pair.post()
    assert pair.client.free == 0
    pair.exchange()
    pair.answer(first)
    pair.exchange()
    assert pair.client.free == 1


def test_a_large_answer_is_let_in_and_a_huge_one_is_not() -> None:
    pair = Pair()
    large, huge = pair.post(), pair.post()
    pair.exchange()
    pair.answer(large, body=b"x" * (MAX_BODY - 1))
    (answer,) = pair.exchange()
    assert isinstance(answer, Response)
    assert len(answer.body) == MAX_BODY - 1
    pair.client.receive(_headers(huge, b"\x88", 0))
    part = frame(frames.DATA, 0, huge, b"x" * frames.DEFAULT_MAX_FRAME_SIZE)
    *parts, last = [part] * (MAX_BODY // frames.DEFAULT_MAX_FRAME_SIZE)
    assert [event for part in parts for event in pair.client.receive(part)] == []
    (failure,) = pair.client.receive(last)
    assert isinstance(failure, StreamFailure)
    assert (failure.stream, failure.processed) == (huge, True)
    assert pair.client.take_output().endswith(frames.rst_stream(huge, frames.CANCEL))


def test_what_was_received_is_credited_to_the_connection() -> None:
    """Else it stops after two gigabytes of answers."""
    pair = Pair()
    pair.exchange()
    part = frame(frames.DATA, 0, 1, b"x" * frames.DEFAULT_MAX_FRAME_SIZE)
    for number in range(2 * CREDIT // frames.DEFAULT_MAX_FRAME_SIZE):
        pair.client.receive(part)  # of a stream that was cancelled
        given = (number + 1) * frames.DEFAULT_MAX_FRAME_SIZE % CREDIT == 0
        assert pair.client.take_output() == (frames.window_update(0, CREDIT) if given else b"")


def test_a_window_that_grows_meanwhile_lets_more_of_a_body_out() -> None:
    pair = Pair({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    pair.exchange()
    stream = pair.post(b"x" * 100)
    pair._serve(pair.client.take_output())
    assert len(pair.bodies[stream]) == 10
    pair.client.receive(frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\x28"))
    ack, body = frame(frames.SETTINGS, frames.ACK, 0), frame(frames.DATA, 0, stream, b"x" * 30)
    assert pair.client.take_output() == ack + body


def test_a_ping_is_answered_and_an_answer_is_not() -> None:
    pair = Pair()
    pair.exchange()
    pair.client.receive(frame(frames.PING, 0, 0, b"12345678"))
    answer = frame(frames.PING, frames.ACK, 0, b"12345678")
    assert pair.client.take_output() == answer
    pair.client.receive(answer)
    assert pair.client.take_output() == b""


def test_going_away_says_which_requests_were_processed() -> None:
    pair = Pair()
    first, second = pair.post(), pair.post()
    pair.exchange()
    assert pair.client.usable
    pair.server.close_connection(2, b"so long", last_stream_id=first)
    down = pair.server.data_to_send()
    events = pair.client.receive(down + _headers(first, b"\x88", frames.END_STREAM))
    assert [(one.stream, type(one)) for one in events] == [
        (second, StreamFailure),
        (first, Response),
    ]
    reason = "the server closes the connection (2) so long"
    assert events[0] == StreamFailure(second, reason, processed=False)
    assert not pair.client.usable
    assert pair.client.free == 0


@pytest.mark.parametrize(("code", "processed"), [(frames.REFUSED_STREAM, False), (2, True)])
def test_a_reset_says_whether_it_was_processed(code: int, processed: bool) -> None:
    pair = Pair()
    stream = pair.post()
    pair.exchange()
    pair.server.reset_stream(stream, code)
    (failure,) = pair.exchange()
    assert isinstance(failure, StreamFailure)
    assert (failure.stream, failure.processed) == (stream, processed)
    assert pair.client.usable


def test_what_is_cancelled_gets_no_answer_and_others_do() -> None:
    pair = Pair()
    gone, other = pair.post(), pair.post()
    pair.exchange()
    pair.client.cancel(gone)
    pair.client.cancel(gone)
    pair.exchange()
    assert pair.resets == [gone]
    late = _headers(gone, b"\x88", 0) + frame(frames.DATA, frames.END_STREAM, gone, b"late")
    assert pair.client.receive(late) == []
    pair.answer(other)
    assert [one.stream for one in pair.exchange()] == [other]


def test_a_closed_connection_fails_what_is_open_as_perhaps_processed() -> None:
    pair = Pair()
    stream = pair.post()
    assert pair.client.close("gone") == [StreamFailure(stream, "gone", processed=True)]
    assert not pair.client.usable


def test_an_early_answer_ends_the_body() -> None:
    """A server may refuse a large body after its beginning."""
    pair = Pair({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    pair.exchange()
    stream = pair.post(b"x" * 100)
    pair._serve(pair.client.take_output())
    assert pair.client.receive(_headers(stream, b"\x8c", frames.END_STREAM)) == [
        Response(stream, 400, b"\x8c", b"")
    ]
    assert pair.client.take_output() == frames.rst_stream(stream, frames.NO_ERROR)


def _headers(stream: int, block: bytes, flags: int) -> bytes:
    return frame(frames.HEADERS, flags | frames.END_HEADERS, stream, block)


def _literal_status(value: bytes) -> bytes:
    return b"\x08" + bytes((len(value),)) + value


END = frames.END_STREAM
TRAILERS = b"\x00\x01a\x01b"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(_headers(1, b"\x88", END), 200, id="a status of the static table"),
        pytest.param(_headers(1, b"\x20\x8d", END), 404, id="behind a table size update"),
        pytest.param(_headers(1, _literal_status(b"409"), END), 409, id="a literal"),
        pytest.param(_headers(1, b"\x48\x83\x68\x0f\xff", END), 409, id="a Huffman literal"),
        pytest.param(
            _headers(1, _literal_status(b"103"), 0) + _headers(1, b"\x88", END), 200, id="after 103"
        ),
        pytest.param(_headers(1, b"\x88", 0) + _headers(1, TRAILERS, END), 200, id="with trailers"),
        pytest.param(
            frame(frames.HEADERS, END, 1, b"")
            + frame(frames.CONTINUATION, 0, 1, b"\x88")
            + frame(frames.CONTINUATION, frames.END_HEADERS, 1, TRAILERS),
            200,
            id="in three frames",
        ),
        pytest.param(
            frame(frames.PING, 0, 0, b"12345678") + frame(99, 0, 0) + _headers(1, b"\x88", END),
            200,
            id="after frames that are not its own",
        ),
    ],
)
def test_statuses(sent: bytes, status: int) -> None:
    pair = Pair()
    pair.post()
    pair.exchange()
    (answer,) = pair.client.receive(sent)
    assert isinstance(answer, Response)
    assert answer.status == status
    assert pair.client.receive(frame(frames.PING, 0, 0, b"12345678")) == []


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x88"), frames.PROTOCOL_ERROR),
        (frame(frames.CONTINUATION, 4, 1, b"\x88"), frames.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 0, 1, b"\x88") + frame(frames.PING, 0, 0, b"8" * 8), 1),
        (frame(frames.HEADERS, 0, 1, b"\x88") + frame(frames.CONTINUATION, 4, 3), 1),
        (_headers(1, b"\x40\x01a\x01b", END), frames.PROTOCOL_ERROR),
        (_headers(1, _literal_status(b"2x1"), END), frames.PROTOCOL_ERROR),
        (_headers(1, b"\xbe", END), frames.COMPRESSION_ERROR),
        (b"\x01\x00\x00" + b"\0" * 6, frames.FRAME_SIZE_ERROR),
        (frame(frames.GOAWAY, 0, 0, b"\0\0"), frames.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"), frames.FLOW_CONTROL_ERROR),
        (frames.window_update(0, 0x7FFF_FFFF), frames.FLOW_CONTROL_ERROR),
    ],
)
def test_a_server_that_breaks_the_protocol(sent: bytes, code: int) -> None:
    pair = Pair()
    stream = pair.post()
    pair.exchange()
    with pytest.raises(ProtocolError) as raised:
        pair.client.receive(sent)
    assert raised.value.code == code
    assert pair.client.take_output()[3] == frames.GOAWAY
    assert not pair.client.usable
    assert [one.stream for one in pair.client.close("broken")] == [stream]


@pytest.mark.parametrize("cut", [1 << 20, 1])
def test_answers_before_an_error_are_not_lost(cut: int) -> None:
    """In whatever pieces they come, each request hears of its own end, once."""
    pair = Pair()
    streams = [pair.post() for _ in range(4)]
    pair.exchange()
    sent = _headers(streams[0], b"\x88", END)
    sent += frames.rst_stream(streams[1], frames.REFUSED_STREAM)
    sent += frame(frames.HEADERS, frames.END_HEADERS, streams[2], b"\x88")
    sent += frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x88")
    *pieces, last = _pieces(sent, cut)
    events = [event for piece in pieces for event in pair.client.receive(piece)]
    with pytest.raises(ProtocolError):
        pair.client.receive(last)
    events += pair.client.close("broken")
    assert events == [
        Response(streams[0], 200, b"\x88", b""),
        StreamFailure(streams[1], "the server reset the request (code 7)", processed=False),
        StreamFailure(streams[2], "broken", processed=True),
        StreamFailure(streams[3], "broken", processed=True),
    ]
    assert pair.client.close("again") == []
