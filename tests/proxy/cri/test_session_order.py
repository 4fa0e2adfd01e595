"""What must not overtake the DATA before it: trailers, and acknowledgements of SETTINGS."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded, RequestArrived

from tests.proxy.cri.test_session_held import ASK
from tests.proxy.cri.test_session_windows import full, released
from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, Refuse, arrived, credited
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Release


def trailers_and_next(play: Playbook) -> tuple[Playbook, bytes, bytes]:
    """A held call with trailers behind its message, and another call behind them."""
    request = play.client.request(1, "/hold")
    trailers = play.client.trailers(1, [("x-sum", "abc")])
    following = play.client.request(3, "/relay", [("x-sum", "abc")])
    play = (
        play.relays(request)
        >> Client(play.client.data(1, ASK), trailers, following)
        << credited(1, 8)
        << arrived(1, b"ask")
    )
    assert play.session.stalled
    return play, trailers, following


class TestTrailers:
    def test_behind_a_held_message_stop_the_client_until_it_is_sent(self):
        play, trailers, following = trailers_and_next(Playbook())
        ping = play.client.ping()
        assert play >> Client(ping)
        assert play >> Release(1) << Backend(play.client.data(1, ASK), trailers, following, ping)
        assert not play.session.stalled
        assert play.relays(play.client.data(3, b"x", end=True)).answers(play.server.answer(3))
        assert play.answers(play.server.answer(1)) << CallEnded(1, b"done")
        assert not play.session.busy

    def test_wait_for_the_windows_too(self):
        play, trailers, following = trailers_and_next(
            Playbook(settings={frames.INITIAL_WINDOW_SIZE: 5})
        )
        assert play >> Release(1) << Backend(play.client.data(1, ASK[:5]))
        assert play.session.stalled
        assert (
            play
            >> Backend(play.server.credit(1, 3))
            << Backend(play.client.data(1, ASK[5:]), trailers, following)
        )
        assert not play.session.stalled

    def test_go_on_when_the_call_is_refused(self):
        play, trailers, following = trailers_and_next(Playbook())
        reset, settings = play.client.reset(1), play.client.settings()
        assert play >> Refuse(1) << Backend(reset, settings, trailers, following)
        refusal = frames.literals([*frames.RESPONSE, ("grpc-status", "14"), ("grpc-message", "no")])
        assert (
            play
            >> Backend(play.server.settings_ack())
            << Client(play.server.block(1, refusal, end=True))
        )
        assert play.answers(play.server.answer(3))
        assert not play.session.busy

    @pytest.mark.parametrize("how", ["answer", "reset", "goaway"])
    def test_go_on_when_the_backend_ends_the_call(self, how):
        play, trailers, following = trailers_and_next(Playbook())
        server = play.server
        last = {
            "answer": lambda: server.trailers_only(1, 12),
            "reset": lambda: server.reset(1),
            "goaway": lambda: server.goaway(0),
        }[how]()
        reset = play.client.reset(1) if how == "answer" else b""
        assert (
            play
            >> Backend(last)
            << Client(last)
            << CallAbandoned(1)
            << Backend(reset, trailers, following)
        )
        assert not play.session.stalled
        assert play.answers(server.trailers_only(3, 12))
        assert not play.session.busy

    def test_may_have_a_held_call_behind_them(self):
        play, trailers, following = trailers_and_next(Playbook())
        held = play.client.request(5, "/hold")
        assert (
            play
            >> Client(held, play.client.data(5, message(bytes(15)), end=True))
            >> Release(1)
            << Backend(play.client.data(1, ASK), trailers, following, held)
            << arrived(5, bytes(15))
            # Twenty bytes came, eight of which the backend's credit pays for.
            << credited(0, 12)
        )

    def test_in_pieces_stop_the_client_at_the_first(self, play, client):
        request = client.request(1, "/hold")
        trailers = client.headers(1, [("x-sum", "a" * 50)], end=True, pieces=3)
        first = trailers[: trailers.index(b"\x09\x00", 9) - 3]
        assert play.relays(request)
        assert play >> Client(client.data(1, ASK), first) << credited(1, 8) << arrived(1, b"ask")
        assert play >> Release(1) << Backend(client.data(1, ASK), first)
        assert play >> Client(trailers[len(first) :]) << Backend(trailers[len(first) :])

    def test_may_be_all_there_is(self, play, client):
        request, trailers = client.request(1, "/hold"), client.trailers(1)
        problem = "0 bytes are not one gRPC message"
        assert play.relays(request)
        assert play >> Client(trailers) << RequestArrived(1, "hold", None, True, problem)
        assert play >> Release(1) << Backend(client.data(1), trailers)

    def test_of_relayed_data_that_waits(self):
        play = full(Playbook())
        assert play.relays(play.client.request(3, "/relay"))
        trailers, ping = play.client.trailers(3), play.client.ping()
        assert play >> Client(play.client.data(3, b"abc"), trailers, ping)
        assert play.session.stalled
        assert play >> Backend(play.server.credit(0, 2)) << Backend(play.client.data(3, b"ab"))
        assert (
            play
            >> Backend(play.server.credit(0, 1))
            << Backend(play.client.data(3, b"c"), trailers, ping)
        )

    def test_with_a_path_are_trailers_still(self, play, client):
        """A stream is one call, whatever comes later on it."""
        request, again = client.request(1, "/watch"), client.request(1, "/hold")
        assert play.relays(request).relays(again).relays(client.data(1, ASK))
        assert play.tallies["/hold"].calls == 0

    def test_what_follows_them_may_be_wrong(self):
        """It is seen only when a decision lets the client go on."""
        play, *_ = trailers_and_next(Playbook())
        assert play >> Client(b"\xff" * 20)
        assert (
            play
            >> Release(1)
            << Backend(play.client.data(1, ASK))
            << CallEnded(1, None)
            << Failed(frames.FRAME_SIZE_ERROR)
        )
        play, *_ = trailers_and_next(Playbook())
        assert play >> Client(b"\xff" * 20)
        assert (
            play
            >> Refuse(1)
            << Backend(play.client.reset(1), play.client.settings())
            << Failed(frames.FRAME_SIZE_ERROR)
        )
        assert not play.session.busy

    def test_two_calls_may_stop_the_client_one_after_the_other(self, play, client):
        requests = client.request(1, "/hold"), client.request(3, "/hold")
        trailers = client.trailers(1), client.trailers(3)
        assert play.relays(*requests)
        assert (
            play
            >> Client(client.data(1, ASK), client.data(3, ASK), *trailers)
            << Client(client.credit(1, 8), client.credit(3, 8), client.credit(0, 16))
            << arrived(1, b"ask")
        )
        assert play >> Release(1) << Backend(client.data(1, ASK), trailers[0]) << arrived(3, b"ask")
        assert play.session.stalled
        assert play >> Release(3) << Backend(client.data(3, ASK), trailers[1])
        assert not play.session.stalled


class TestSettingsAcknowledgement:
    """From it on the backend's windows are others: what was sent before must come before."""

    def test_waits_behind_data_that_waits(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay"), client.request(5, "/relay"))
        settings = server.settings({frames.INITIAL_WINDOW_SIZE: 0})
        assert play.answers(settings)
        ack, ping = client.settings_ack(), client.ping()
        assert play >> Client(client.data(3, b"abc"), client.data(5, b"d"), ack, ping)
        assert play.session.stalled
        assert play >> Backend(server.credit(0, 2)) << Backend(client.data(3, b"ab"))
        assert play >> Backend(server.credit(0, 1)) << Backend(client.data(3, b"c"))
        assert play >> Backend(server.credit(0, 1)) << Backend(client.data(5, b"d"), ack, ping)
        assert not play.session.stalled

    def test_goes_on_when_that_data_is_dropped(self):
        play = full(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.request(3, "/relay"))
        ack = client.settings_ack()
        assert play >> Client(client.data(3, b"abc"), ack)
        assert play >> Backend(server.reset(3)) << Client(server.reset(3)) << Backend(ack)

    def test_does_not_wait_for_what_was_released(self):
        """We follow that stream's window ourselves."""
        play = Playbook(settings={frames.INITIAL_WINDOW_SIZE: 5})
        body = message(bytes(95))
        assert released(play, 1, body, 5)
        assert play.answers(play.server.settings()).relays(play.client.settings_ack())
        assert not play.session.stalled

    def test_settings_of_the_client_do_not_wait(self):
        play = full(Playbook())
        client = play.client
        assert play.relays(client.request(3, "/relay")) >> Client(client.data(3, b"abc"))
        assert play.relays(client.settings({4: 70_000})).answers(play.server.settings_ack())
