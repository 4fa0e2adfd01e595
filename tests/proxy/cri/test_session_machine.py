"""The session between two strict HTTP/2 peers, under arbitrary interleavings.

Both peers are the ``h2`` library, which raises when a window is exceeded or
overflows, when a frame comes on a closed stream, and when a header block does
not decode. Whatever happens, each request must arrive as it was sent or decided,
byte for byte and in order.
"""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from koord_proxy.contract.events import (
    CallAbandoned,
    CallEnded,
    RequestArrived,
    Route,
    Tally,
    Treatment,
)
from koord_proxy.cri.session import CriSession
from koord_wire import messages

from tests.support.examples import fewer

TREATMENTS = {"/relay": Treatment.RELAY, "/watch": Treatment.WATCH, "/hold": Treatment.HOLD}
TALLY = Tally()
REFUSED_STATUS = "14"


def route(path: str) -> Route:
    return Route(TREATMENTS[path], TALLY, path)


def content(seed: int, size: int) -> bytes:
    """Bytes that show when they are out of place."""
    return b"".join((seed * 65_537 + i).to_bytes(4, "big") for i in range(size // 4 + 1))[:size]


class Call:
    def __init__(self, path: str, body: bytes) -> None:
        self.path = path
        self.body = body
        self.sent = 0
        self.request_ended = False
        # What the server is to receive; None while that is not decided.
        self.expected: bytes | None = None if path == "/hold" else body
        self.refused = False
        self.at_server = bytearray()
        self.server_saw_end = False
        self.headers_at_server = False
        self.reset = False  # by either side: what arrives may be less
        self.response = bytearray()
        self.response_sent = bytearray()
        self.responding = False
        self.response_done = False
        self.gone_at_server = False
        self.client_saw_end = False
        self.status: str | None = None


class Relay(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        config = h2.config.H2Configuration
        self.client = h2.connection.H2Connection(config(client_side=True, header_encoding="utf-8"))
        self.server = h2.connection.H2Connection(config(client_side=False, header_encoding="utf-8"))
        self.session = CriSession(route)
        self.pipes = {name: bytearray() for name in ("c>", ">s", "s>", ">c")}
        self.calls: dict[int, Call] = {}
        self.undecided: dict[int, RequestArrived] = {}
        self.ended: dict[int, bytes | None] = {}
        self.unacknowledged: list[tuple[int, int]] = []
        self.unread: list[tuple[int, int]] = []
        self.tables_changed: set[str] = set()
        # h2 mixes up acknowledgements when several SETTINGS are under way (it does
        # not count its first one), so each peer waits. Several at a time are in
        # test_session.py.
        self.settings_under_way = {"client", "server"}

    @initialize(
        window=st.sampled_from([None, 0, 1, 100, 4000, 65_535, 1_000_000, 2**31 - 1]),
        frame=st.sampled_from([None, 16_384, 20_000, 100_000]),
    )
    def start(self, window: int | None, frame: int | None) -> None:
        codes = h2.settings.SettingCodes
        wanted = {codes.INITIAL_WINDOW_SIZE: window, codes.MAX_FRAME_SIZE: frame}
        self.server.local_settings = h2.settings.Settings(
            client=False,
            initial_values={code: value for code, value in wanted.items() if value is not None},
        )
        if frame is not None:
            self.server.max_inbound_frame_size = frame
        self.client.initiate_connection()
        self.server.initiate_connection()
        # h2 insists on its first SETTINGS before the client can know them.
        self.settle()

    # ---- plumbing

    def collect(self) -> None:
        self.pipes["c>"] += self.client.data_to_send()
        self.pipes["s>"] += self.server.data_to_send()
        self.pipes[">s"] += b"".join(self.session.to_backend)
        self.pipes[">c"] += b"".join(self.session.to_client)
        self.session.to_backend.clear()
        self.session.to_client.clear()
        for request in self.session.requests:
            if isinstance(request, RequestArrived):
                assert request.message is not None, request.problem
                call = self.calls[request.stream]
                assert call.body == messages.pack(request.message)
                if request.held:
                    self.undecided[request.stream] = request
            elif isinstance(request, CallAbandoned):
                del self.undecided[request.stream]
            elif isinstance(request, CallEnded):
                assert request.stream not in self.ended
                self.ended[request.stream] = request.response
        self.session.requests.clear()
        assert self.session.failed is None, self.session.failed

    def deliver(self, pipe: str, size: int) -> None:
        self.collect()
        data = bytes(self.pipes[pipe][:size])
        del self.pipes[pipe][:size]
        if not data:
            return
        if pipe == "c>":
            self.session.receive_from_client(data)
        elif pipe == "s>":
            self.session.receive_from_backend(data)
        elif pipe == ">s":
            self.server_events(self.server.receive_data(data))
        else:
            self.client_events(self.client.receive_data(data))
        self.collect()

    def settle(self) -> None:
        for _ in range(10):
            for pipe in ("c>", ">s", "s>", ">c"):
                self.deliver(pipe, 1 << 30)

    def server_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                call = self.calls[event.stream_id]
                assert (":path", call.path) in [tuple(h) for h in event.headers]
                assert ("x-number", str(event.stream_id)) in [tuple(h) for h in event.headers]
                call.headers_at_server = True
            elif isinstance(event, h2.events.DataReceived):
                self.calls[event.stream_id].at_server += event.data
                if event.flow_controlled_length:
                    self.unacknowledged.append((event.stream_id, event.flow_controlled_length))
            elif isinstance(event, h2.events.StreamEnded):
                self.calls[event.stream_id].server_saw_end = True
            elif isinstance(event, h2.events.StreamReset):
                call = self.calls[event.stream_id]
                call.gone_at_server = True
            elif isinstance(event, h2.events.SettingsAcknowledged):
                self.settings_under_way.discard("server")
            assert not isinstance(event, h2.events.ConnectionTerminated)

    def client_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                call = self.calls[event.stream_id]
                for name, value in event.headers:
                    if name == "grpc-status":
                        call.status = value
                    if name == "x-answer":
                        assert value == str(event.stream_id)
            elif isinstance(event, h2.events.DataReceived):
                self.calls[event.stream_id].response += event.data
                if event.flow_controlled_length:
                    self.unread.append((event.stream_id, event.flow_controlled_length))
            elif isinstance(event, h2.events.StreamEnded):
                self.calls[event.stream_id].client_saw_end = True
            elif isinstance(event, h2.events.StreamReset):
                self.calls[event.stream_id].reset = True
            elif isinstance(event, h2.events.SettingsAcknowledged):
                self.settings_under_way.discard("client")
            assert not isinstance(event, h2.events.ConnectionTerminated)

    # ---- rules

    @rule(
        pipe=st.sampled_from(["c>", ">s", "s>", ">c"]),
        size=st.one_of(st.integers(1, 40), st.integers(1, 100_000)),
    )
    def move(self, pipe: str, size: int) -> None:
        self.deliver(pipe, size)

    @rule(pipes=st.permutations(["c>", ">s", "s>", ">c"]), count=st.integers(1, 4))
    def move_all(self, pipes: list[str], count: int) -> None:
        for pipe in pipes[:count]:
            self.deliver(pipe, 1 << 30)

    @rule(
        path=st.sampled_from(sorted(TREATMENTS)),
        size=st.one_of(st.integers(0, 300), st.integers(0, 9000), st.integers(0, 150_000)),
        value=st.sampled_from([0, 50, 50, 20_000]),
        chunks=st.lists(st.integers(1, 20_000), max_size=4),
    )
    def open(self, path: str, size: int, value: int, chunks: list[int]) -> None:
        if len(self.calls) > 12 or self.client.open_outbound_streams > 20:
            return
        stream = self.client.get_next_available_stream_id()
        # Watched and held requests are gRPC messages; others may be anything.
        body = content(stream, size) if path == "/relay" else messages.pack(content(stream, size))
        self.calls[stream] = Call(path, body)
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("x-number", str(stream)),
            # The large one needs CONTINUATION frames.
            ("x-same", "v" * value),
        ]
        self.client.send_headers(stream, headers)
        for chunk in chunks:
            if not self.calls[stream].request_ended:
                self.send_some(stream, chunk, None)

    def open_calls(self) -> list[int]:
        return [
            number
            for number, call in self.calls.items()
            if not call.request_ended and not call.reset and not call.client_saw_end
        ]

    def send_some(self, stream: int, size: int, padding: int | None) -> None:
        call = self.calls[stream]
        left = len(call.body) - call.sent
        pad = 0 if padding is None else padding + 1
        window = self.client.local_flow_control_window(stream) - pad
        size = min(size, left, window, self.client.max_outbound_frame_size - pad)
        if size < 0 or (size == 0 and left):
            return
        last = size == left
        data = call.body[call.sent : call.sent + size]
        self.client.send_data(stream, data, end_stream=last, pad_length=padding)
        call.sent += size
        call.request_ended = last

    @precondition(lambda self: self.open_calls())
    @rule(
        data=st.data(),
        size=st.one_of(st.integers(1, 50), st.integers(1, 200_000)),
        padding=st.one_of(st.none(), st.integers(0, 255)),
    )
    def send(self, data: st.DataObject, size: int, padding: int | None) -> None:
        self.send_some(data.draw(st.sampled_from(self.open_calls())), size, padding)

    @precondition(lambda self: self.undecided)
    @rule(
        data=st.data(),
        decision=st.sampled_from(["as it came", "changed", "refused"]),
        size=st.one_of(st.integers(0, 300), st.integers(0, 200_000)),
    )
    def decide(self, data: st.DataObject, decision: str, size: int) -> None:
        stream = data.draw(st.sampled_from(sorted(self.undecided)))
        self.decide_one(stream, decision, size)

    def decide_one(self, stream: int, decision: str, size: int) -> None:
        del self.undecided[stream]
        call = self.calls[stream]
        if decision == "as it came":
            call.expected = call.body
            self.session.release(stream)
        elif decision == "changed":
            message = content(stream + 1000, size)
            call.expected = messages.pack(message)
            self.session.release(stream, message)
        else:
            call.expected = b""
            call.refused = True
            self.session.refuse(stream, "the hook said no: 100%", int(REFUSED_STATUS))
        self.collect()

    @precondition(lambda self: self.unacknowledged)
    @rule(data=st.data(), how=st.sampled_from(["acknowledge", "generous"]))
    def credit(self, data: st.DataObject, how: str) -> None:
        index = data.draw(st.integers(0, len(self.unacknowledged) - 1))
        stream, size = self.unacknowledged.pop(index)
        self.acknowledge(stream, size)
        if how == "generous":
            self.give_more(1000)

    def acknowledge(self, stream: int, size: int) -> None:
        try:
            self.server.acknowledge_received_data(size, stream)
        except h2.exceptions.StreamClosedError:
            pass

    def give_more(self, size: int) -> None:
        # h2 raises only after having counted, so it must not come to that.
        if self.server.inbound_flow_control_window + size < 2**31:
            self.server.increment_flow_control_window(size)

    @rule(size=st.sampled_from([1, 500, 100_000, 2**31 - 1 - 65_535]))
    def widen_connection(self, size: int) -> None:
        self.give_more(size)

    def answerable(self) -> list[int]:
        return [
            number
            for number, call in self.calls.items()
            if call.headers_at_server
            and not (call.response_done or call.reset or call.gone_at_server)
        ]

    @precondition(lambda self: self.answerable())
    @rule(data=st.data(), size=st.integers(0, 30_000), end=st.booleans(), whole=st.booleans())
    def respond(self, data: st.DataObject, size: int, end: bool, whole: bool) -> None:
        stream = data.draw(st.sampled_from(self.answerable()))
        self.respond_some(stream, size, end, whole)

    def respond_some(self, stream: int, size: int, end: bool, whole: bool) -> None:
        call = self.calls[stream]
        if not call.responding:
            filler = "w" * (20_000 if size % 5 == 0 else 10)
            headers = [(":status", "200"), ("x-answer", str(stream)), ("x-filler", filler)]
            self.server.send_headers(stream, headers)
            call.responding = True
        window = self.server.local_flow_control_window(stream)
        size = min(size, window, self.server.max_outbound_frame_size)
        if size > 0:
            data = messages.pack(content(stream, size))[:size] if whole else content(stream, size)
            self.server.send_data(stream, data)
            call.response_sent += data
        if end:
            self.server.send_headers(stream, [("grpc-status", "0")], end_stream=True)
            call.response_done = True

    @precondition(lambda self: self.answerable())
    @rule(data=st.data())
    def server_resets(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(self.answerable()))
        self.calls[stream].reset = self.calls[stream].response_done = True
        self.server.reset_stream(stream, 2)

    @precondition(lambda self: self.open_calls() or self.undecided)
    @rule(data=st.data())
    def client_resets(self, data: st.DataObject) -> None:
        alive = [n for n, c in self.calls.items() if not c.reset and not c.client_saw_end]
        if not alive:
            return
        stream = data.draw(st.sampled_from(alive))
        self.calls[stream].reset = True
        self.client.reset_stream(stream, 8)

    @precondition(lambda self: self.unread)
    @rule()
    def client_reads(self) -> None:
        stream, size = self.unread.pop(0)
        try:
            self.client.acknowledge_received_data(size, stream)
        except h2.exceptions.StreamClosedError:
            pass

    @rule(
        window=st.sampled_from([0, 1, 50, 10_000, 65_535, 500_000]),
        table=st.sampled_from([0, 100, 4096, 8192]),
        who=st.sampled_from(["server", "client"]),
    )
    def change_settings(self, window: int, table: int, who: str) -> None:
        codes = h2.settings.SettingCodes
        if who in self.settings_under_way:
            return
        self.settings_under_way.add(who)
        peer = self.server if who == "server" else self.client
        wanted = {codes.INITIAL_WINDOW_SIZE: window}
        if who not in self.tables_changed:
            # Once only: hpack's encoder forgets to say so when given the same size twice.
            wanted[codes.HEADER_TABLE_SIZE] = table
            self.tables_changed.add(who)
        peer.update_settings(wanted)

    @rule(who=st.sampled_from(["server", "client"]))
    def ping(self, who: str) -> None:
        (self.server if who == "server" else self.client).ping(b"12345678")

    # ---- what must hold

    @invariant()
    def nothing_out_of_order(self) -> None:
        for call in self.calls.values():
            if call.expected is not None:
                assert call.expected.startswith(call.at_server)
            elif not call.reset:
                assert not call.at_server
            assert bytes(call.response_sent).startswith(call.response)

    def teardown(self) -> None:
        """Let everything that can finish do so, then look at the sums."""
        self.settle()
        assert not self.settings_under_way
        for peer in (self.server, self.client):
            peer.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
        for _ in range(2000):
            before = self.progress()
            for pipe in (">s", "s>", ">c", "c>"):
                self.deliver(pipe, 1 << 30)
            while self.unacknowledged:
                self.acknowledge(*self.unacknowledged.pop()[0:2])
            while self.unread:
                self.client_reads()
            for stream in sorted(self.undecided):
                self.decide_one(stream, "as it came", 0)
            for stream in self.open_calls():
                self.send_some(stream, 16_384, None)
            self.give_more(30_000)
            self.collect()
            if self.progress() == before and not any(self.pipes.values()):
                break
        for stream in self.answerable():
            if self.calls[stream].server_saw_end:
                self.respond_some(stream, 100, True, True)
        self.settle()
        for stream, call in self.calls.items():
            if call.client_saw_end and not (call.request_ended or call.reset):
                # Answered before it had said all: it gives up, as gRPC clients do.
                self.client.reset_stream(stream, 8)
        self.settle()
        for stream, call in self.calls.items():
            if call.reset:
                continue
            answered_early = call.response_done and not call.server_saw_end
            if call.refused and not answered_early:
                assert call.status == REFUSED_STATUS, stream
                assert call.client_saw_end
            elif not answered_early:
                assert bytes(call.at_server) == call.expected, stream
                assert call.server_saw_end, stream
                assert call.client_saw_end, stream
                assert call.response == call.response_sent, stream
        assert self.server.open_inbound_streams == 0
        assert self.client.open_outbound_streams == 0
        assert not self.session.busy
        assert self.session._state.held_bytes == 0
        assert self.session._state.window.debt >= 0
        assert self.session._state.window.queued == sum(
            map(len, self.session._state.queue.values())
        )

    def progress(self) -> tuple[object, ...]:
        return (
            [(c.sent, len(c.at_server), c.client_saw_end, c.status) for c in self.calls.values()],
            {name: len(pipe) for name, pipe in self.pipes.items()},
            len(self.undecided),
        )


Relay.TestCase.settings = settings(
    fewer(2),
    stateful_step_count=60,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestRelay = Relay.TestCase
