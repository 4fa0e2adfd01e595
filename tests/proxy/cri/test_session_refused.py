"""Calls that are answered with an error here, and never reach the runtime."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from koord_proxy.cri import limits

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_windows import full
from tests.support import frames
from tests.support.cri_playbook import Playbook, Refuse, credited, cut
from tests.support.frames import RESPONSE, literals, message
from tests.support.playbook import Backend, Client, Release

NO = [("grpc-status", "14"), ("grpc-message", "no")]
ANSWER = literals([*RESPONSE, *NO])
TRAILERS = literals(NO)


def refused(play: Playbook, stream: int = 1, *, announced: bool = False) -> Playbook:
    """A held call is refused; the backend has yet to confirm."""
    return (
        collect(play, stream, ASK, announced=announced)
        >> Refuse(stream)
        << Backend(play.client.reset(stream), play.client.settings())
    )


def answer(play: Playbook, block: bytes, stream: int = 1) -> Client:
    return Client(play.server.block(stream, block, end=True))


class TestRefusing:
    def test_resets_the_call_and_answers_once_the_backend_confirmed(self, play, server):
        ack = server.settings_ack()
        assert refused(play) >> Backend(ack) << answer(play, ANSWER)
        assert not play.session.busy
        assert play.answers(ack), "later ones are the client's"

    def test_moves_no_table(self, play, client, server):
        """What the backend says later refers to its own entries, and finds them."""
        assert play.relays(client.request(3, "/relay")).relays(client.request(5, "/relay"))
        assert play.answers(server.response(3, [("x-new", "first")]))
        assert refused(play) >> Backend(server.settings_ack()) << answer(play, ANSWER)
        assert len(play.to_client.decoder.header_table.dynamic_entries) == 2
        response = server.response(5, [("x-new", "first")])
        assert len(response) == 9 + 3, "indices only"
        assert play.answers(response)
        assert play.to_client.headers[5] == [[*RESPONSE, ("x-new", "first")]]

    def test_after_response_headers_is_said_in_trailers(self, play, client, server):
        assert play.relays(client.request(1, "/hold")).answers(server.response(1))
        assert refused(play, announced=True)
        assert play >> Backend(server.settings_ack()) << answer(play, TRAILERS)

    def test_crossing_response_headers_is_said_in_trailers(self, play, server):
        assert refused(play).answers(server.response(1), server.data(1, b"some"))
        assert play >> Backend(server.settings_ack()) << answer(play, TRAILERS)

    @pytest.mark.parametrize("whole", ["answer", "trailers_only"])
    def test_crossing_a_whole_answer_leaves_it_at_that(self, whole, play, server):
        answered = server.answer(1) if whole == "answer" else server.trailers_only(1, 12)
        assert refused(play).answers(answered) >> Backend(server.settings_ack())
        assert not play.session.busy

    def test_crossing_a_reset_answers_all_the_same(self, play, server):
        assert refused(play) >> Backend(server.reset(1))
        assert play >> Backend(server.settings_ack()) << answer(play, ANSWER)

    def test_other_frames_of_the_stream_still_pass(self, play, client, server):
        assert refused(play).answers(server.credit(1, 5)).relays(client.credit(1, 5))

    def test_confirmations_come_in_order_with_the_clients(self, play, client, server):
        ack = server.settings_ack()
        assert collect(play, 1, ASK)
        assert collect(play, 3, ASK)
        ours = [client.settings()]
        assert play.relays(client.settings({3: 7})) >> Refuse(3) << Backend(client.reset(3), *ours)
        assert play >> Client(client.settings({3: 8})) << Backend(client.settings({3: 8}))
        assert play >> Refuse(1) << Backend(client.reset(1), *ours) >> Backend(ack) << Client(ack)
        assert play >> Backend(ack) << answer(play, ANSWER, 3)
        assert play >> Backend(ack) << Client(ack)
        assert play >> Backend(ack, ack) << answer(play, ANSWER, 1) << Client(ack)
        assert not play.session.busy

    @pytest.mark.parametrize(
        "text", ["", "plain", "100% übel\n", "\x00\x7f~ ", "日" * 3000, "x" * 50_000, "\udcff"]
    )
    def test_says_anything_in_one_frame(self, text, play, client, server):
        play = (
            collect(play, 1, ASK)
            >> Refuse(1, 2, text)
            << Backend(client.reset(1), client.settings())
            >> Backend(server.settings_ack())
        )
        (frame,) = play.to_client.frames
        assert frame.flags == frames.END_HEADERS | frames.END_STREAM
        assert len(frame.payload) <= 16_384
        (fields,) = play.to_client.headers[1]
        assert fields[:-1] == [*RESPONSE, ("grpc-status", "2")]
        name, value = fields[-1]
        assert name == "grpc-message"
        assert value.isascii()
        assert value.isprintable()
        assert unquote(value) == text[:1024].replace("\udcff", "?")


class TestHeaderTable:
    """The first block after the client lowered its table has to begin with saying so."""

    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [
            ([100], 100),
            ([0], 0),
            ([4095], 4095),
            ([100, 50], 50),
            ([50, 100], 50),
            ([0, 4096], 0),
            ([0, 4096, 100], 0),
            ([8192, 4096], 4096),
            ([4096], None),
            ([8192], None),
            ([None], None),
            ([100, None], 100),
        ],
    )
    def test_is_lowered_by_a_refusal(self, sizes, expected, play, client, server):
        play.to_client.decoder.max_allowed_table_size = 8192
        for size in sizes:
            wanted = {} if size is None else {frames.HEADER_TABLE_SIZE: size}
            assert play.relays(client.settings(wanted)).answers(server.settings_ack())
        update = b"" if expected is None else frames.table_size(expected)
        assert refused(play)
        assert play >> Backend(server.settings_ack()) << answer(play, update + ANSWER)
        again = ANSWER
        assert refused(play, 3) >> Backend(server.settings_ack()) << answer(play, again, 3), (
            "once is enough"
        )

    def test_was_lowered_by_the_backend_itself(self, play, client, server):
        assert play.relays(client.request(3, "/relay"))
        assert play.relays(client.settings({frames.HEADER_TABLE_SIZE: 100})).answers(
            server.settings_ack()
        )
        server.encoder.header_table_size = 100
        assert play.answers(server.response(3))
        assert refused(play) >> Backend(server.settings_ack()) << answer(play, ANSWER)

    def test_not_acknowledged_yet_is_not_lowered(self, play, client, server):
        assert play.relays(client.settings({frames.HEADER_TABLE_SIZE: 100}))
        play = refused(play)
        ack = server.settings_ack()
        assert play >> Backend(ack) << Client(ack)
        assert play >> Backend(ack) << answer(play, frames.table_size(100) + ANSWER)


class TestClientOfARefusedCall:
    def test_may_give_up_first(self, play, client, server):
        """Its reset would be the second that the backend gets."""
        assert refused(play) >> Client(client.reset(1)) >> Backend(server.settings_ack())
        assert not play.session.busy

    def test_is_not_waited_for_when_it_has_not_ended(self, monkeypatch):
        monkeypatch.setattr(limits, "MAX_MESSAGE", 20)
        play = Playbook()
        client = play.client
        assert play.relays(client.request(1, "/hold"))
        assert (
            play
            >> Client(client.data(1, bytes(26)))
            << Backend(client.reset(1), client.settings())
            << credited(0, 26)
        )
        play = play >> Backend(play.server.settings_ack())
        assert play.to_client.frames.pop().flags & frames.END_STREAM
        # What is on its way is dropped; its room on the connection is not lost.
        assert play >> Client(client.data(1, bytes(7))) << credited(0, 7)
        assert play >> Client(client.data(1, b"", padding=2)) << credited(0, 3)
        assert play.session.busy

    @pytest.mark.parametrize("how", ["end", "reset", "trailers", "backend", "goaway"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_is_forgotten_when_it_ends(self, how, when, monkeypatch):
        monkeypatch.setattr(limits, "MAX_MESSAGE", 20)
        play = Playbook()
        client, server = play.client, play.server
        ack = server.settings_ack()
        assert play.relays(client.request(1, "/hold"))
        assert (
            play
            >> Client(client.data(1, bytes(26)))
            << Backend(client.reset(1), client.settings())
            << credited(0, 26)
        )
        if when == "after":
            play = play >> Backend(ack)
            play.to_client.frames.clear()
        if how == "end":
            assert play >> Client(client.data(1, b"!", end=True)) << credited(0, 1)
        elif how == "reset":
            assert play >> Client(client.reset(1))
        elif how == "trailers":
            assert play.relays(client.trailers(1))
        elif how == "goaway":
            assert play.answers(server.goaway(0))
        elif when == "after":
            assert play.answers(server.reset(1))
        else:
            assert play.answers(server.trailers_only(1, 1)) >> Client(client.data(1, end=True))
        if when == "before":
            play = play >> Backend(ack)
            play.to_client.frames.clear()
        assert not play.session.busy
        assert play.answers(ack)


class TestTooLarge:
    def test_a_message_of_16_mib_is_held(self, play):
        body = message(bytes(16 << 20))
        assert collect(play, 1, body)

    def test_a_larger_one_is_refused(self, play, client, server):
        assert play.relays(client.request(1, "/hold"))
        body = message(bytes((16 << 20) + 1))
        *pieces, last = (client.data(1, piece) for piece in cut(body, 16_384))
        for piece in pieces:
            play.session.receive_from_client(piece)
        play.session.to_client.clear()
        assert (
            play
            >> Client(last)
            << Backend(client.reset(1), client.settings())
            << credited(0, len(last) - 9)
        )
        play = play >> Backend(server.settings_ack())
        play.to_client.frames.clear()
        (fields,) = play.to_client.headers[1]
        text = "the request is larger than what is held (16777216 bytes a message)"
        assert dict(fields)["grpc-status"] == "8"
        assert dict(fields)["grpc-message"] == f"koord-runtime-proxy: {text}"

    @pytest.mark.parametrize("others", ["/hold", "/watch"])
    def test_many_together_are_refused(self, others, monkeypatch):
        monkeypatch.setattr(limits, "MAX_HELD", 100)
        play = Playbook()
        client = play.client
        assert play.relays(client.request(1, others), client.request(3, "/hold"))
        data = client.data(1, bytes(60))
        if others == "/watch":
            assert play.relays(data)
        else:
            assert play >> Client(data) << credited(1, 60)
        assert play >> Client(client.data(3, bytes(40))) << credited(3, 40)
        assert (
            play
            >> Client(client.data(3, bytes(1)))
            << Backend(client.reset(3), client.settings())
            << credited(0, 1)
        )
        play = play >> Backend(play.server.settings_ack())
        play.to_client.frames.clear()
        assert "(100 bytes held a connection)" in dict(play.to_client.headers[3][0])["grpc-message"]
        # Its bytes are free again, and so are those of a call that was given up.
        reset = client.reset(1)
        play = play >> Client(reset) << Backend(reset)
        play.requests.clear()
        assert collect(play, 5, message(bytes(90)))

    def test_released_bytes_do_not_count(self, monkeypatch):
        monkeypatch.setattr(limits, "MAX_HELD", 100)
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 0})
        body = message(bytes(80))
        assert collect(play, 1, body) >> Release(1)
        request = play.client.request(3, "/hold")
        play = play >> Client(request, play.client.data(3, body, end=True)) << Backend(request)
        assert play.requests.pop()


def test_refusing_takes_nothing_off_the_windows():
    play = full(Playbook())
    client, server = play.client, play.server
    held = client.request(3, "/hold")
    play = play >> Client(held, client.data(3, ASK, end=True)) << Backend(held)
    assert play.requests.pop()
    assert play >> Refuse(3) << Backend(client.reset(3), client.settings())
    # The eight bytes that were read here come off what is swallowed.
    assert play >> Backend(server.credit(0, 65_535)) << credited(0, 8)
