"""Flow control: neither side may see a byte beyond its window, or wait for credit it is owed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from koord_proxy.contract.events import CallEnded, RequestArrived

from tests.proxy.cri.test_session_held import ASK, collect
from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, arrived, credited, cut
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Release

WINDOW = 65_535


def released(
    play: Playbook, stream: int, body: bytes, room: int = WINDOW, *, announced: bool = False
) -> Playbook:
    """A held call is released; as much of it as ``room`` goes out."""
    play = collect(play, stream, body, announced=announced) >> Release(stream)
    return play << Backend(*datas(play, stream, body, 0, room))


def datas(play: Playbook, stream: int, body: bytes, start: int, size: int) -> Sequence[bytes]:
    """A piece of a body, in the frames that the session makes of it."""
    ends = start + size >= len(body)
    pieces = list(cut(body[start : start + size], 16_384))
    return [
        play.client.data(stream, piece, end=ends and index == len(pieces) - 1)
        for index, piece in enumerate(pieces)
    ]


def full(play: Playbook, stream: int = 1) -> Playbook:
    """The backend has no more room; the client still has its whole window."""
    return released(play, stream, message(bytes(WINDOW - 5)))


class TestReleasing:
    def test_as_it_came_swallows_as_much_credit_as_was_given(self, play, server):
        assert released(play, 1, ASK) >> Backend(server.credit(0, 5), server.credit(1, 8))
        assert play >> Backend(server.credit(0, 3))
        assert play.answers(server.credit(0, 8))

    def test_a_smaller_message_swallows_only_its_own(self, play, client, server):
        body = message(bytes(5000))
        assert collect(play, 1, body)
        assert play >> Release(1, b"tiny") << Backend(client.data(1, message(b"tiny"), end=True))
        assert play >> Backend(server.credit(0, 9))
        assert play.answers(server.credit(0, 1))

    def test_credit_is_swallowed_to_the_byte(self, play, server):
        assert released(play, 1, ASK)
        assert (
            play
            >> Backend(server.credit(0, 5), server.credit(0, 10))
            << Client(server.credit(0, 7))
        )

    def test_a_larger_one_waits_for_the_backends_windows(self, play):
        body = message(bytes(100_000 - 5))
        server = play.server
        assert released(play, 1, body) >> Backend(server.credit(0, 40_000))
        assert (
            play
            >> Backend(server.credit(1, 20_000))
            << Backend(*datas(play, 1, body, WINDOW, 20_000))
            >> Backend(server.credit(1, 30_000))
            << Backend(*datas(play, 1, body, WINDOW + 20_000, 14_465))
        )
        assert 100_000 - WINDOW < 40_000, "there was room enough on the connection at once"
        assert play >> Backend(server.credit(0, 60_000))
        assert play.answers(server.credit(0, 1))

    def test_the_connections_window_is_shared(self, play, client):
        body = message(bytes(1000 - 5))
        server = play.server
        assert full(play)
        request = client.request(3, "/hold")
        assert (
            play
            >> Client(request, client.data(3, body, end=True))
            << Backend(request)
            << arrived(3, body[5:])
        )
        assert play >> Release(3) >> Backend(server.credit(3, 1 << 20))
        assert play >> Backend(server.credit(0, 999)) << Backend(*datas(play, 3, body, 0, 999))
        assert play >> Backend(server.credit(0, 1)) << Backend(*datas(play, 3, body, 999, 1))

    def test_credit_for_another_stream_is_its_own(self):
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 10})
        play = play.relays(play.client.request(3, "/relay"))
        body = message(bytes(15))
        assert released(play, 1, body, 10)
        assert play.answers(play.server.credit(3, 500))
        assert play >> Backend(play.server.credit(1, 3)) << Backend(*datas(play, 1, body, 10, 3))

    def test_an_empty_message_needs_no_window(self):
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 0})
        problem = "0 bytes are not one gRPC message"
        assert play.relays(play.client.request(1, "/hold"))
        assert (
            play
            >> Client(play.client.data(1, end=True))
            << RequestArrived(1, "hold", None, True, problem)
        )
        assert play >> Release(1) << Backend(play.client.data(1, end=True))


class TestInitialWindow:
    def test_counts_from_the_clients_acknowledgement_on(self):
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 10})
        client, server = play.client, play.server
        body = message(bytes(95))
        assert released(play, 1, body, 10)
        assert play.answers(server.settings({frames.INITIAL_WINDOW_SIZE: 30}))
        assert play.answers(server.settings({3: 100}))
        assert play.answers(server.settings({frames.INITIAL_WINDOW_SIZE: 5}))
        ack = client.settings_ack()
        assert (
            play
            >> Client(ack)
            << Backend(ack, *datas(play, 1, body, 10, 20))
            >> Client(ack)
            << Backend(ack)
            >> Client(ack)
            << Backend(ack)
            # The window is 25 below zero now.
            >> Backend(server.credit(1, 25))
            >> Backend(server.credit(1, 1))
            << Backend(*datas(play, 1, body, 30, 1))
        )

    def test_acknowledged_twice_over_counts_once(self):
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 10})
        body = message(bytes(95))
        assert released(play, 1, body, 10)
        settings = play.server.settings({frames.INITIAL_WINDOW_SIZE: 20})
        assert play.answers(settings, settings)
        ack = play.client.settings_ack()
        assert play >> Client(ack, ack) << Backend(ack, ack, *datas(play, 1, body, 10, 10))

    @pytest.mark.parametrize("phase", ["arriving", "with the shell"])
    def test_changes_for_calls_that_are_held(self, phase, play, client, server):
        body = message(bytes(95))
        settings = server.settings({frames.INITIAL_WINDOW_SIZE: 7})
        ack = client.settings_ack()
        assert play.relays(client.request(1, "/hold"))
        if phase == "arriving":
            assert play.answers(settings).relays(ack)
            assert collect(play, 1, body, announced=True)
        else:
            assert collect(play, 1, body, announced=True).answers(settings).relays(ack)
        assert play >> Release(1) << Backend(*datas(play, 1, body, 0, 7))

    def test_of_a_setting_named_twice_is_the_last(self, play, client):
        settings = frames.frame(
            frames.SETTINGS, 0, 0, bytes.fromhex("0004 00000002 0004 00000003".replace(" ", ""))
        )
        ack = client.settings_ack()
        assert play.answers(settings).relays(ack)
        body = message(bytes(95))
        assert released(play, 1, body, 3)

    def test_of_new_calls_is_the_new_one(self, play, client, server):
        assert play.answers(server.settings({frames.INITIAL_WINDOW_SIZE: 7}))
        assert play.relays(client.request(1, "/hold"), client.settings_ack())
        assert play.relays(client.request(3, "/hold"))
        body = message(bytes(95))
        assert collect(collect(play, 1, body, announced=True), 3, body, announced=True)
        for stream in (1, 3):
            assert play >> Release(stream) << Backend(*datas(play, stream, body, 0, 7))


class TestRelayedDataWithoutRoom:
    """What we put on the connection takes room that the client was promised."""

    def test_waits_and_goes_on_in_order(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay"))
        assert play >> Client(client.data(3, b"one"), client.data(3, b"two", end=True))
        assert play >> Backend(server.credit(0, 2)) << Backend(client.data(3, b"on"))
        assert play >> Backend(server.credit(0, 2)) << Backend(client.data(3, b"et"))
        assert play >> Backend(server.credit(0, 2)) << Backend(client.data(3, b"wo", end=True))
        assert not play.session._state.queue

    def test_passes_what_waits_for_its_own_window(self):
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 1})
        assert released(play, 1, ASK, 1)
        assert play.relays(play.client.request(3, "/relay"), play.client.data(3, b"x", end=True))

    def test_is_sent_when_it_fits_but_not_past_its_own_stream(self):
        """Two bytes of room, three wait: a fourth must not overtake them."""
        play = full(Playbook())
        client = play.client
        assert play.relays(client.request(3, "/relay"), client.request(5, "/relay"))
        assert play >> Client(client.data(3, b"abc"))
        assert play >> Backend(play.server.credit(0, 2)) << Backend(client.data(3, b"ab"))
        assert (
            play
            >> Client(client.data(3, b"", end=True), client.data(5, b""))
            << Backend(client.data(5, b""))
        )
        assert play >> Backend(play.server.credit(0, 2)) << Backend(client.data(3, b"c", end=True))
        assert play.relays(client.data(5, b"!"))

    def test_loses_its_padding_which_is_credited(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay"))
        assert (
            play
            >> Client(client.data(3, b"abc", padding=6))
            >> Backend(server.credit(0, 3))
            << Backend(client.data(3, b"abc"))
            # What was put on is swallowed, less the seven bytes of padding.
            >> Backend(server.credit(0, WINDOW - 3))
            << credited(0, 7)
        )

    def test_of_nothing_but_padding(self):
        play = full(Playbook())
        assert play.relays(play.client.request(3, "/relay"))
        assert (
            play
            >> Client(play.client.data(3, b"", padding=6, end=True))
            << Backend(play.client.data(3, b"", end=True))
        )
        assert play >> Backend(play.server.credit(0, WINDOW)) << credited(0, 7)

    @pytest.mark.parametrize("who", ["client", "backend"])
    def test_is_dropped_with_a_reset_and_credited(self, who):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay")) >> Client(client.data(3, bytes(100)))
        reset = client.reset(3)
        if who == "client":
            assert play.relays(reset)
        else:
            assert play.answers(reset)
        assert play >> Backend(server.credit(0, WINDOW - 1)) << credited(0, 99)
        assert play >> Backend(server.credit(0, 1)) << credited(0, 1)
        assert play.answers(server.credit(0, 1))

    def test_is_dropped_when_the_backend_goes_away(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay")) >> Client(client.data(3, bytes(100)))
        assert play.answers(server.goaway(1))
        assert play >> Backend(server.credit(0, WINDOW)) << credited(0, 100)

    def test_stays_after_an_early_answer(self):
        """The answer may say all, but what the client sent is the backend's to receive."""
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay")) >> Client(client.data(3, b"abc", end=True))
        assert play.answers(server.trailers_only(3, 12))
        assert play >> Backend(server.credit(0, 10)) << Backend(client.data(3, b"abc", end=True))

    def test_does_not_pile_up_behind_what_was_sent(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay")) >> Client(client.data(3, b"a"))
        for number in range(1, 100):
            letter = bytes((number,))
            before = bytes((number - 1,)) if number > 1 else b"a"
            assert play >> Client(client.data(3, letter))
            assert play >> Backend(server.credit(0, 1)) << Backend(client.data(3, before))
        assert len(play.session._state.queue[3].data) <= 2


class TestClientsWindow:
    def test_may_be_used_up_but_not_exceeded(self, play, client):
        assert play.relays(client.request(1, "/relay"))
        for piece in cut(bytes(WINDOW), 16_384):
            assert play.relays(client.data(1, piece))
        assert play.relays(client.data(1))
        assert play >> Client(client.data(1, b"!")) << Failed(frames.FLOW_CONTROL_ERROR)

    def test_counts_padding(self, play, client):
        assert play.relays(client.request(1, "/relay"))
        for piece in cut(bytes(WINDOW - 10), 16_384):
            assert play.relays(client.data(1, piece))
        assert play >> Client(client.data(1, b"", padding=10)) << Failed(frames.FLOW_CONTROL_ERROR)

    def test_counts_held_bytes_only_while_they_are_not_credited(self, play, client):
        assert play.relays(client.request(1, "/hold"))
        pieces = [client.data(1, piece) for piece in cut(bytes(WINDOW), 16_384)]
        assert (
            play
            >> Client(*pieces, client.data(1, b"!"))
            << Client(*(client.credit(1, len(piece) - 9) for piece in pieces))
            << Failed(frames.FLOW_CONTROL_ERROR)
        )

    def test_is_whole_while_what_was_released_waits(self):
        play = full(Playbook())
        assert play.relays(play.client.request(3, "/relay"))
        pieces = [play.client.data(3, piece) for piece in cut(bytes(WINDOW), 16_384)]
        assert play >> Client(*pieces)
        assert (
            play
            >> Client(play.client.data(3, b"!"))
            << CallEnded(1, None)
            << Failed(frames.FLOW_CONTROL_ERROR)
        )

    def test_is_used_up_by_held_bytes_while_the_backend_owes_credit(self):
        """Otherwise a backend that stands still would have us hold any number of calls."""
        play = full(Playbook())
        assert play.relays(play.client.request(3, "/hold"))
        for piece in cut(bytes(WINDOW), 16_384):
            credit = Client(play.client.credit(3, len(piece)))
            assert play >> Client(play.client.data(3, piece)) << credit
        assert play.answers(play.server.credit(0, 1)).answers(play.server.credit(0, 1))
        assert (
            play
            >> Client(play.client.data(3, b"abc"))
            << CallEnded(1, None)
            << Failed(frames.FLOW_CONTROL_ERROR)
        )

    def test_grows_by_what_the_backend_gives(self, play, client, server):
        assert play.answers(server.credit(0, 2**31 - 1 - WINDOW))
        assert play.relays(client.request(1, "/relay"))
        for _ in range(10):
            assert play.relays(client.data(1, bytes(16_384)))
