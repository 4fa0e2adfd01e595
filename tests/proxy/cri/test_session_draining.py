"""A client is asked to leave: no call of its is lost, and none is made twice."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallEnded
from koord_proxy.cri.draining import PING_PAYLOAD
from koord_proxy.cri.session import CriSession

from tests.proxy.cri.test_session_held import ASK, collect
from tests.proxy.cri.test_session_windows import WINDOW
from tests.support import frames
from tests.support.cri_playbook import Failed, Playbook, Refuse, arrived, credited
from tests.support.frames import message
from tests.support.playbook import Backend, Client, Drain, Release

NO_LIMIT = 2**31 - 1


class CutOff:
    """The client had its time to acknowledge."""

    def play(self, session: CriSession) -> None:
        session.cut_off()


def acknowledgement(play: Playbook) -> bytes:
    return play.client.ping(PING_PAYLOAD, ack=True)


def asked(play: Playbook) -> Playbook:
    """Asked to leave, and nothing more."""
    ping = play.server.ping(PING_PAYLOAD)
    return play >> Drain() << Client(play.server.goaway(NO_LIMIT), ping)


def reported(play: Playbook, last: int) -> Playbook:
    """Informed which stream was the last, as it acknowledged."""
    return asked(play) >> Client(acknowledgement(play)) << Client(play.server.goaway(last))


def unended(play: Playbook) -> Playbook:
    """A held call whose message is there, and which trailers are to end."""
    client, size = play.client, len(ASK)
    return (
        play.relays(client.request(1, "/hold")) >> Client(client.data(1, ASK)) << credited(1, size)
    )


def parts(block: bytes) -> list[bytes]:
    return [frames.frame(*part) for part in frames.read_frames(block)[0]]


class TestAsked:
    def test_the_last_word_follows_the_acknowledgement(self, play, server):
        assert asked(play)
        assert not play.session.drained
        assert play >> Client(acknowledgement(play)) << Client(server.goaway(0))
        assert play.session.drained

    def test_or_the_end_of_its_time(self, play, server):
        assert asked(play) >> CutOff() << Client(server.goaway(0))
        assert play.session.drained
        # Late, it is still ours.
        assert play >> Client(acknowledgement(play))

    def test_it_is_asked_once_and_reported_once(self, play, server):
        assert asked(play) >> Drain()
        assert play >> CutOff() << Client(server.goaway(0)) >> CutOff() >> Drain()

    @pytest.mark.parametrize("path", ["/relay", "/watch", "/hold"])
    def test_calls_on_their_way_are_served(self, path, play, client, server):
        assert asked(play).relays(client.request(1, path))
        assert play >> Client(acknowledgement(play)) << Client(server.goaway(1))
        assert not play.session.drained
        play = play >> Client(client.data(1, ASK, end=True))
        if path == "/hold":
            play = play << arrived(1, b"ask") << credited(0, 8) >> Release(1)
        play = play << Backend(client.data(1, ASK, end=True))
        if path == "/watch":
            play = play << arrived(1, b"ask", method="watch")
        play = play.answers(server.trailers_only(1, 0))
        assert play if path == "/relay" else play << CallEnded(1, None)
        assert play.session.drained

    def test_the_last_stream_is_the_highest_whether_over_or_not(self, play, client, server):
        assert play.relays(client.request(1, "/relay"), client.request(3, "/relay"))
        assert play.answers(server.answer(3))
        assert reported(play, 3)
        assert not play.session.drained
        assert play.answers(server.answer(1))
        assert play.session.drained

    def test_a_stream_whose_headers_are_under_way_counts(self, play, client, server):
        first, second, third = parts(client.request(1, "/relay", pieces=3))
        assert play.relays(first)
        assert asked(play) >> CutOff() << Client(server.goaway(1))
        assert not play.session.drained
        assert play.relays(second, third).answers(server.answer(1))
        assert play.session.drained

    def test_what_the_backend_is_saying_is_heard_out(self, play, client, server):
        assert play.relays(client.request(1, "/relay"), client.reset(1))
        first, second = parts(server.response(1, pieces=2))
        ping = server.ping(PING_PAYLOAD)
        assert play.answers(first) >> Drain() >> CutOff()
        assert not play.session.drained
        goaways = server.goaway(NO_LIMIT), ping, server.goaway(1)
        assert play >> Backend(second) << Client(second, *goaways)
        assert play.session.drained

    def test_after_a_failure_there_is_no_more_to_say(self, play):
        assert asked(play) >> Client(b"\xff" * 9) << Failed(frames.FRAME_SIZE_ERROR)
        assert play >> CutOff() >> Drain()

    def test_an_acknowledgement_inside_a_header_block_is_none(self, play, client):
        first, _ = parts(client.request(1, "/relay", pieces=2))
        assert asked(play).relays(first)
        assert play >> Client(acknowledgement(play)) << Failed(frames.PROTOCOL_ERROR)


class TestPings:
    def test_are_not_ours_before_we_sent_one(self, play):
        assert play.relays(acknowledgement(play))

    def test_of_others_go_on(self):
        play = asked(Playbook())
        client, server = play.client, play.server
        assert play.relays(client.ping(), client.ping(ack=True))
        assert play.answers(server.ping(), server.ping(ack=True))

    def test_of_the_client_may_have_the_same_payload(self):
        play = asked(Playbook())
        assert play.relays(play.client.ping(PING_PAYLOAD))
        assert play.answers(play.server.ping(PING_PAYLOAD, ack=True))
        assert play >> Client(acknowledgement(play)) << Client(play.server.goaway(0))

    def test_of_the_backend_may_have_the_same_payload(self, play, server):
        """Each gets one acknowledgement."""
        assert play.answers(server.ping(PING_PAYLOAD))
        assert reported(play, 0).relays(acknowledgement(play))


class TestLeftOut:
    """Streams above the last one."""

    def play(self) -> Playbook:
        """A call under way, and the client informed that there are no more."""
        play = Playbook()
        assert play.relays(play.client.request(1, "/relay"))
        return reported(play, 1)

    @pytest.mark.parametrize("path", ["/relay", "/watch", "/hold"])
    def test_nothing_of_them_reaches_anybody(self, path):
        play = self.play()
        client = play.client
        assert play >> Client(client.request(3, path))
        assert play >> Client(client.data(3, ASK, end=True)) << credited(0, len(ASK))
        assert play.tallies[path].calls == (path == "/relay")
        assert play.answers(play.server.answer(1))
        assert play.session.drained

    @pytest.mark.parametrize(
        "frame",
        [
            lambda client: client.reset(3),
            lambda client: client.credit(3, 100),
            lambda client: client.priority(3),
            lambda client: frames.frame(0xEE, 0, 3, b"what is not known yet"),
            lambda client: client.trailers(3),
        ],
        ids=["reset", "credit", "priority", "unknown", "trailers"],
    )
    def test_nor_any_other_frame(self, frame):
        play = self.play()
        assert play >> Client(play.client.request(3, "/relay"), frame(play.client))

    def test_nor_one_in_pieces(self):
        play = self.play()
        for part in parts(play.client.request(3, "/hold", pieces=3)):
            play = play >> Client(part)
        assert play

    def test_what_is_no_header_block_is_an_error_all_the_same(self):
        play = self.play()
        assert play >> Client(play.client.block(3, b"\xff\xff")) << Failed(frames.COMPRESSION_ERROR)

    def test_a_header_block_holds_nothing_else_there_either(self):
        play = self.play()
        first, _ = parts(play.client.request(3, "/relay", pieces=2))
        assert play >> Client(first)
        assert play >> credited(0, 1) << Failed(frames.PROTOCOL_ERROR)

    def test_the_window_is_still_a_window(self):
        play = self.play()
        client = play.client
        assert play >> Client(client.request(3, "/relay"))
        for _ in range(2 * WINDOW // 16_000):
            data = client.data(3, bytes(16_000))
            assert play >> Client(data) << credited(0, 16_000)
        for _ in range(4):
            assert play.relays(client.data(1, bytes(16_000)))
        assert play >> Client(client.data(3, bytes(16_000))) << Failed(frames.FLOW_CONTROL_ERROR)

    def test_the_rest_of_the_connection_goes_on(self):
        play = self.play()
        client, server = play.client, play.server
        assert play >> Client(client.request(3, "/relay"))
        assert play.relays(
            client.ping(), client.credit(0, 9), client.credit(1, 9), client.settings()
        )
        assert play.answers(server.settings_ack(), server.ping())
        assert play.relays(client.data(1, ASK, end=True)).answers(server.answer(1))

    def test_frames_behind_a_stall_may_be_among_them(self, play, client, server):
        unended(play)
        trailers = client.trailers(1)
        assert play >> Client(trailers, client.request(3, "/hold")) << arrived(1, b"ask")
        assert play.session.stalled
        assert asked(play) >> CutOff() << Client(server.goaway(1))
        assert play >> Release(1) << Backend(client.data(1, ASK), trailers)
        assert not play.session.stalled

    def test_frames_that_waited_for_their_headers_go_on(self):
        play = collect(collect(Playbook(), 1, ASK), 3, ASK)
        first, second, third = parts(play.client.request(5, "/relay", pieces=3))
        assert reported(play, 3) >> Client(first) >> Refuse(1) >> Release(3)
        waited = play.client.reset(1), play.client.settings(), play.client.data(3, ASK, end=True)
        assert play >> Client(second)
        assert play >> Client(third) << Backend(*waited)


class TestTrailers:
    """The backend would not understand them once a header block was left out."""

    @pytest.mark.parametrize("pieces", [1, 3])
    def test_before_that_they_go_on(self, pieces, play, client):
        assert play.relays(client.request(1, "/relay"))
        fields = [("x-sum", "12345")]
        assert reported(play, 1).relays(client.headers(1, fields, end=True, pieces=pieces))

    @pytest.mark.parametrize("pieces", [1, 3])
    def test_after_it_the_call_ends_without_them(self, pieces, play, client, server):
        assert play.relays(client.request(1, "/relay"), client.data(1, message(b"ask")))
        assert reported(play, 1) >> Client(client.request(3, "/relay", [("x-new", "1")]))
        # These refer to what the backend has not seen.
        trailers = client.headers(1, [("x-new", "1"), ("x-other", "2")], end=True, pieces=pieces)
        assert play >> Client(trailers) << Backend(client.data(1, b"", end=True))
        assert play.answers(server.answer(1))
        assert play.session.drained

    def test_of_a_held_call_wait_for_its_message(self, play, client, server):
        unended(play)
        assert reported(play, 1) >> Client(client.request(3, "/relay"))
        assert play >> Client(client.trailers(1)) << arrived(1, b"ask")
        assert play >> Release(1) << Backend(client.data(1, ASK), client.data(1, b"", end=True))
        assert play.answers(server.answer(1)) << CallEnded(1, b"done")
        assert play.session.drained


class TestBackendsGoaway:
    """A client never gets a later last stream than before."""

    def test_after_ours_says_no_more_than_ours(self, play, server, client):
        assert play.relays(client.request(1, "/relay"))
        assert reported(play, 1)
        assert (
            play >> Backend(server.goaway(NO_LIMIT, 2, b"so")) << Client(server.goaway(1, 2, b"so"))
        )
        assert play.answers(server.goaway(1)).answers(server.goaway(0))
        assert play.session.drained

    @pytest.mark.parametrize("when", ["before", "while asked"])
    def test_before_ours_counts(self, when, play, client, server):
        assert play.relays(client.request(1, "/relay"), client.request(3, "/relay"))
        if when == "before":
            assert play.answers(server.goaway(1))
            ping = server.ping(PING_PAYLOAD)
            assert play >> Drain() << Client(server.goaway(1), ping)
        else:
            assert asked(play).answers(server.goaway(1))
        assert play >> Client(acknowledgement(play)) << Client(server.goaway(1))
        assert play.answers(server.answer(1))
        assert play.session.drained
