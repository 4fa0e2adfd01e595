"""Calls that end in other ways than by an answer to a request that was sent."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_windows import WINDOW, released
from tests.support import frames
from tests.support.cri_playbook import Playbook, credited
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Release


def collecting(play: Playbook, stream: int = 1) -> Playbook:
    """A held call whose message is half there."""
    return (
        play.relays(play.client.request(stream, "/hold"))
        >> Client(play.client.data(stream, ASK[:4]))
        << credited(stream, 4)
    )


def deciding(play: Playbook, stream: int = 1) -> Playbook:
    return collect(play, stream, ASK)


def sending(play: Playbook, stream: int = 1) -> Playbook:
    """A call that was released, and is not all sent."""
    return released(play, stream, message(bytes(WINDOW)))


def sent(play: Playbook, stream: int = 1) -> Playbook:
    return released(play, stream, ASK)


def watched(play: Playbook, stream: int = 1) -> Playbook:
    return play.relays(play.client.request(stream, "/watch"), play.client.data(stream, ASK[:4]))


def relayed(play: Playbook, stream: int = 1) -> Playbook:
    return play.relays(play.client.request(stream, "/relay"), play.client.data(stream, ASK))


# How a call stands, and what the shell hears when it ends without a response.
STANDS = {
    relayed: None,
    watched: CallEnded(1, None),
    collecting: None,
    deciding: CallAbandoned(1),
    sending: CallEnded(1, None),
    sent: CallEnded(1, None),
}
every_stand = pytest.mark.parametrize("stand", STANDS, ids=lambda stand: stand.__name__)


def reported(play: Playbook, stand: object) -> Playbook:
    expected = STANDS[stand]
    return play if expected is None else play << expected


class TestClientGivesUp:
    @every_stand
    def test_the_backend_hears_of_it_and_the_shell(self, stand):
        play = stand(Playbook())
        reset = play.client.reset(1)
        assert reported(play >> Client(reset) << Backend(reset), stand)
        assert not play.session.busy
        assert play >> Release(1), "a late decision is nothing"

    @every_stand
    def test_what_the_backend_still_says_passes(self, stand):
        play = stand(Playbook())
        reset = play.client.reset(1)
        play = reported(play >> Client(reset) << Backend(reset), stand)
        assert play.answers(play.server.answer(1), play.server.credit(1, 100))

    def test_while_deciding_frees_what_was_held(self):
        play = deciding(Playbook())
        reset = play.client.reset(1)
        assert play >> Client(reset) << Backend(reset) << CallAbandoned(1)
        assert play.session._state.held_bytes == 0
        assert play.answers(play.server.credit(0, 8)), "nothing was put in, nothing is swallowed"

    def test_after_the_message_of_the_response_it_succeeded(self):
        play = sent(Playbook())
        assert play.answers(play.server.response(1), play.server.data(1, message(b"done")))
        reset = play.client.reset(1)
        assert play >> Client(reset) << Backend(reset) << CallEnded(1, b"done")


class TestBackendResets:
    @every_stand
    def test_the_client_hears_of_it_and_the_shell(self, stand):
        play = stand(Playbook())
        reset = play.server.reset(1, 7)
        assert reported(play >> Backend(reset) << Client(reset), stand)
        assert not play.session.busy
        assert play >> Release(1)

    def test_what_the_client_still_sends_passes(self):
        play = collecting(Playbook())
        assert play.answers(play.server.reset(1)).relays(
            play.client.data(1, ASK[4:], end=True), play.client.reset(1)
        )

    def test_what_was_not_sent_is_dropped(self):
        play = sending(Playbook())
        reset = play.server.reset(1)
        assert play >> Backend(reset) << Client(reset) << CallEnded(1, None)
        # What was sent is swallowed, and no more.
        assert play >> Backend(play.server.credit(0, WINDOW))
        assert play.answers(play.server.credit(0, 1), play.server.credit(1, 1))


class TestBackendAnswersEarly:
    """The response is all there before the request is."""

    @pytest.mark.parametrize("stand", [relayed, watched])
    def test_to_a_call_that_passes_by(self, stand):
        play = stand(Playbook())
        answer = play.server.trailers_only(1, 12)
        assert reported(play >> Backend(answer) << Client(answer), stand)
        assert not play.session.busy
        assert play.relays(play.client.data(1, b"more", end=True))

    def test_to_a_watched_call_by_data(self):
        play = watched(Playbook())
        last = play.server.data(1, message(b"done"), end=True)
        assert (
            play.answers(play.server.response(1)) >> Backend(last) << Client(last)
        ) << CallEnded(1, b"done")

    @pytest.mark.parametrize("stand", [collecting, deciding, sending])
    @pytest.mark.parametrize("by", ["trailers", "data"])
    def test_to_a_held_call_ends_the_backends_wait(self, stand, by):
        play = stand(Playbook())
        server = play.server
        answer = server.trailers_only(1, 12)
        if by == "data":
            answer = server.response(1) + server.data(1, b"", end=True)
            play = Playbook()
            stand(play)
            answer = play.server.response(1) + play.server.data(1, b"", end=True)
        play = play >> Backend(answer) << Client(answer) << Backend(play.client.reset(1))
        assert reported(play, stand)
        assert play >> Release(1)

    def test_while_the_client_is_sending_drops_the_rest(self):
        play = collecting(Playbook())
        answer = play.server.trailers_only(1, 12)
        assert play >> Backend(answer) << Client(answer) << Backend(play.client.reset(1)), (
            "the backend would wait for the request for ever"
        )
        assert play.session.busy
        assert play >> Client(play.client.data(1, b"more")) << credited(0, 4)
        assert play >> Client(play.client.data(1, b"last", end=True)) << credited(0, 4)
        assert not play.session.busy

    def test_the_client_may_give_up_then(self):
        play = collecting(Playbook())
        answer = play.server.trailers_only(1, 12)
        assert play >> Backend(answer) << Client(answer) << Backend(play.client.reset(1))
        assert play >> Client(play.client.reset(1)), "the backend has had one"
        assert not play.session.busy

    def test_the_backend_may_reset_it_as_well(self):
        """So does a gRPC server whose client has not ended."""
        play = collecting(Playbook())
        answer, reset = play.server.trailers_only(1, 12), play.server.reset(1, 0)
        assert (
            play >> Backend(answer, reset) << Client(answer, reset) << Backend(play.client.reset(1))
        )
        assert not play.session.busy

    def test_what_was_released_but_not_sent_is_swallowed_no_more(self):
        play = sending(Playbook())
        answer = play.server.trailers_only(1, 12)
        assert (
            play
            >> Backend(answer)
            << Client(answer)
            << CallEnded(1, None)
            << Backend(play.client.reset(1))
        )
        assert play >> Backend(play.server.credit(0, WINDOW))
        assert play.answers(play.server.credit(0, 1))


class TestBackendGoesAway:
    @every_stand
    def test_what_it_did_not_look_at_is_over(self, stand):
        play = stand(Playbook())
        goaway = play.server.goaway(0)
        assert reported(play >> Backend(goaway) << Client(goaway), stand)
        assert not play.session.busy
        assert play >> Release(1)

    @every_stand
    def test_what_it_looked_at_goes_on(self, stand):
        play = stand(Playbook())
        assert play.answers(play.server.goaway(1)).answers(play.server.goaway(2**31 - 1))
        assert play.session.busy

    def test_only_later_calls_are_over(self):
        play = deciding(deciding(Playbook()), 3)
        goaway = play.server.goaway(1, 2, b"going")
        assert play >> Backend(goaway) << Client(goaway) << CallAbandoned(3)
        assert play >> Release(3) >> Release(1) << Backend(play.client.data(1, ASK, end=True))

    def test_a_reserved_bit_is_not_of_the_number(self):
        play = deciding(Playbook())
        goaway = frames.frame(frames.GOAWAY, 0, 0, b"\x80\x00\x00\x01" + bytes(4))
        assert play.answers(goaway)
        assert play.session.busy
