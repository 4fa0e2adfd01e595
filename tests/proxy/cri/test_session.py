"""What the relay does with calls it has nothing to do with: pass their frames on."""

from __future__ import annotations

import pytest
from koord_proxy.cri.session import CriSession

from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook
from tests.support.frames import ClientFrames, message
from tests.support.playbook import Backend, Client

EITHER_SIDES = {
    "PING": lambda peer: peer.ping(),
    "PING ACK": lambda peer: peer.ping(ack=True),
    "PRIORITY": lambda peer: peer.priority(1),
    "PRIORITY of an idle stream": lambda peer: peer.priority(9),
    "SETTINGS": lambda peer: peer.settings({3: 100, 6: 9000}),
    "SETTINGS without any": lambda peer: peer.settings(),
    "GOAWAY": lambda peer: peer.goaway(1, 2, b"so long"),
    "RST_STREAM": lambda peer: peer.reset(1),
    "RST_STREAM of a stream long gone": lambda peer: peer.reset(99),
    "WINDOW_UPDATE of a stream": lambda peer: peer.credit(1, 70_000),
    "WINDOW_UPDATE of the connection": lambda peer: peer.credit(0, 70_000),
    "DATA of a stream not known": lambda peer: peer.data(99, b"whatever", padding=3),
    "DATA": lambda peer: peer.data(1, b"part of a message"),
    "DATA with padding": lambda peer: peer.data(1, b"part of a message", padding=200),
    "DATA of nothing": lambda peer: peer.data(1, end=True),
    "DATA whose padding makes no sense": lambda peer: frames.frame(frames.DATA, 8, 1, b"\xff"),
    "an unknown type": lambda peer: frames.frame(0xEE, 0xFF, 1, b"from the future"),
    "an unknown type, empty": lambda peer: frames.frame(0x42, 0, 0),
    "a reserved bit": lambda peer: frames.frame(frames.PING, 0, 1 << 31, b"12345678"),
}


@pytest.mark.parametrize("what", EITHER_SIDES)
@pytest.mark.parametrize("sender", ["client", "backend"])
def test_goes_on_verbatim(what, sender, play):
    assert play.relays(play.client.request(1, "/relay"))
    frame = EITHER_SIDES[what](play.client)
    if sender == "client":
        assert play.relays(frame)
    else:
        assert play.answers(frame)


def test_settings_are_acknowledged_by_the_peers_themselves(play):
    for peer, passes, back in (
        (play.client, play.relays, play.answers),
        (play.server, play.answers, play.relays),
    ):
        assert passes(peer.settings({4: 1000}), peer.settings({4: 2000}))
        assert back(peer.settings_ack(), peer.settings_ack())
        assert back(peer.settings_ack()), "one too many is the peer's to complain about"


def test_push_promise_goes_on(play, client, server):
    promise = server.push_promise(1, 2, [(":path", "/x"), ("x-new", "1")], pieces=3)
    assert (
        play.relays(client.request(1, "/relay"))
        .answers(promise)
        .answers(server.answer(2))
        .answers(server.answer(1))
    )
    assert ("x-new", "1") in play.to_client.headers[1][0]


def test_a_call_without_a_body_is_passed_on_however_its_method_is_treated(play, client, server):
    for stream, path in ((1, "/relay"), (3, "/watch"), (5, "/hold")):
        assert play.relays(client.request(stream, path, end=True))
        assert play.answers(server.trailers_only(stream, 12))
    assert not play.session.busy


def test_a_chunk_of_ordinary_frames_is_not_copied(play, client):
    chunk = client.request(1, "/relay") + client.data(1, b"x" * 1000, end=True)
    play.session.receive_from_client(chunk)
    assert play.session.to_backend[0] is chunk


class TestHeaderBlocks:
    @pytest.mark.parametrize("pieces", [1, 2, 7])
    @pytest.mark.parametrize(
        "how", [{}, {"padding": 0}, {"padding": 30}, {"priority": True}], ids=str
    )
    def test_go_on_byte_for_byte(self, pieces, how, play, client):
        request = client.request(1, "/relay", [("x", "y" * 300)], pieces=pieces, **how)
        assert play.relays(request, client.data(1, b"", end=True))
        assert play.tallies["/relay"].calls == 1

    def test_of_relayed_calls_keep_the_table_for_held_ones(self, play, client):
        """A block read wrongly anywhere would make this one's path another's."""
        paths = ["/relay", "/hold", "/watch", "/relay", "/hold"]
        for number, path in enumerate(paths):
            request = client.request(2 * number + 1, path, [("x-n", str(number))])
            assert play.relays(request)
        assert [play.tallies[path].calls for path in ("/relay", "/hold", "/watch")] == [2, 2, 1]

    def test_of_trailers_move_the_table_too(self, play, client):
        assert play.relays(
            client.request(1, "/relay"),
            client.trailers(1, [("x-sum", "12345")]),
            client.request(3, "/hold", [("x-sum", "12345")]),
        )
        assert play.tallies["/hold"].calls == 1

    def test_of_the_backend_are_not_read(self, play, server):
        nonsense = server.block(1, b"\xff\xff\xff\xff\xff\xff")
        play.session.receive_from_backend(nonsense)
        assert play.session.to_client == [nonsense]
        assert not play.session.failed

    def test_may_use_the_table_that_the_backend_allows(self):
        play = Playbook(settings={frames.HEADER_TABLE_SIZE: 20_000})
        play.to_backend.decoder.max_allowed_table_size = 20_000
        play.client.encoder.header_table_size = 20_000
        large = [("x-large", "l" * 9000)]
        first = play.client.request(1, "/relay", large)
        second = play.client.request(3, "/hold", large)
        assert len(second) < 100
        assert play.relays(first).relays(second)
        assert play.tallies["/hold"].calls == 1


class TestPieces:
    def exchange(self, play: Playbook) -> None:
        client, server = play.client, play.server
        assert (
            play.relays(client.request(1, "/relay", [("x", "y" * 50)], pieces=3))
            .relays(client.data(1, message(b"ask" * 20), padding=7), client.data(1, end=True))
            .answers(server.response(1, pieces=2), server.data(1, message(b"done")))
            .answers(server.trailers(1, pieces=2), server.ping())
        )
        assert not play.session.busy

    def test_may_be_single_bytes(self):
        self.exchange(Playbook().byte_by_byte())

    def test_the_preface_may_come_in_single_bytes(self):
        play = Playbook(handshake=False).byte_by_byte()
        assert (
            play
            >> Client(frames.PREFACE, play.client.settings())
            << Backend(play.client.settings())
        )
        self.exchange(play)

    def test_of_nothing(self):
        play = Playbook(handshake=False)
        assert play >> Client(b"") >> Backend(b"")
        assert play >> Client(frames.PREFACE) >> Client(b"")

    def test_a_frame_goes_on_when_it_is_whole(self, play, client):
        request = client.request(1, "/relay")
        assert play >> Client(request[:4]) >> Client(request[4:20])
        assert play >> Client(request[20:], request[:0]) << Backend(request)


class TestFrameSizes:
    @pytest.mark.parametrize("sender", ["client", "backend"])
    def test_are_16_kib_unless_allowed(self, sender, play):
        side, passes = (Client, play.relays) if sender == "client" else (Backend, play.answers)
        assert passes(frames.frame(0xEE, 0, 1, bytes(16_384)))
        assert (
            play >> side(frames.frame(0xEE, 0, 1, bytes(16_385))) << Failed(frames.FRAME_SIZE_ERROR)
        )

    @pytest.mark.parametrize("sender", ["client", "backend"])
    def test_may_be_what_the_receiver_allows(self, sender):
        allowed = {frames.MAX_FRAME_SIZE: 40_000}
        if sender == "client":
            play = Playbook(settings=allowed)
            side, passes = Client, play.relays
        else:
            play = Playbook(client_settings=allowed)
            side, passes = Backend, play.answers
        assert passes(frames.frame(0xEE, 0, 1, bytes(40_000)))
        too_large = frames.frame(0xEE, 0, 1, bytes(40_001))
        assert play >> side(too_large[:9]) << Failed(frames.FRAME_SIZE_ERROR)

    def test_stay_allowed_when_taken_back(self):
        """The peer learns of a smaller limit later than we do."""
        play = Playbook(settings={frames.MAX_FRAME_SIZE: 40_000})
        assert play.answers(play.server.settings({frames.MAX_FRAME_SIZE: 16_384}))
        assert play.relays(frames.frame(0xEE, 0, 1, bytes(40_000)))


class TestTallies:
    def test_count_calls_and_bytes_of_data_by_method(self, play, client, server):
        assert play.relays(
            client.request(1, "/relay"),
            client.data(1, bytes(10), padding=4),
            client.data(1, bytes(20), end=True),
            client.request(3, "/watch"),
            client.data(3, bytes(7)),
        ).answers(server.response(1), server.data(1, bytes(100)), server.data(3, bytes(50)))
        tally = play.tallies["/relay"]
        assert (tally.calls, tally.from_client, tally.from_backend) == (1, 35, 100)
        tally = play.tallies["/watch"]
        assert (tally.calls, tally.from_client, tally.from_backend) == (1, 7, 50)

    def test_are_chosen_by_the_route_once_a_call(self):
        asked = []
        play = Playbook()
        session = CriSession(lambda path: asked.append(path) or play.session._client._route(path))
        client = ClientFrames()
        session.receive_from_client(
            frames.PREFACE
            + client.request(1, "/relay")
            + client.data(1, bytes(10))
            + client.trailers(1)
        )
        assert asked == ["/relay"]
