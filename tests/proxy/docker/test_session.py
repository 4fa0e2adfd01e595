"""What the relay does with requests it has nothing to do with: pass their bytes on."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import Route, Tally, Treatment
from koord_proxy.docker.session import DockerSession

from tests.support.docker_playbook import (
    CONTINUE,
    NO_CONTENT,
    PING,
    PONG,
    Playbook,
    answer,
    chunked,
    post,
)
from tests.support.playbook import Backend, BackendEnds, Client, ClientEnds, Drain, Gone

UPLOAD = post("/relay/build", b"", "Transfer-Encoding: chunked")
DOWNLOAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class TestExchange:
    def test_a_whole_one(self, play):
        assert play.relays(PING)
        assert play.session.busy
        assert play.answers(PONG)
        assert not play.session.busy

    @pytest.mark.parametrize(
        "fields",
        ["", "Connection: close\r\n", "Expect: 100-continue\r\n", "X-Odd:  \tspaces \r\n"],
        ids=repr,
    )
    def test_heads_go_on_as_they_are(self, fields):
        head = f"\r\nPOST /relay/x?a=%20 HTTP/1.1\r\nhost:docker\r\n{fields}\r\n".encode()
        assert Playbook().relays(head).answers(PONG)

    def test_a_head_waits_until_it_is_complete(self, play):
        assert play >> Client(PING[:-1]) >> Client(PING[-1:]) << Backend(PING)

    def test_bodies_stream(self, play):
        assert play.relays(UPLOAD)
        for _ in range(3):
            assert play.relays(b"5\r\nhel").relays(b"lo\r\n")
        assert play.relays(b"0\r\n\r").relays(b"\n")
        assert play.answers(DOWNLOAD).answers(b"5\r\nhel").answers(b"lo\r\n").answers(b"0\r\n\r\n")
        assert not play.session.busy

    def test_a_response_streams_from_its_first_byte(self):
        play = Playbook().relays(PING).byte_by_byte()
        assert play.answers(PONG)

    def test_a_chunk_is_not_copied(self):
        session = DockerSession(lambda target: Route(Treatment.RELAY, Tally()))
        session.receive_from_client(PING)
        session.receive_from_backend(DOWNLOAD)
        data = b"%x\r\n" % 70_000 + b"\r\n\r" * 20_000
        session.receive_from_backend(data)
        assert session.to_backend[0] is PING
        assert session.to_client[1] is data

    def test_interim_responses_come_before_the_final_one(self):
        play = Playbook().relays(UPLOAD)
        assert play.answers(CONTINUE, CONTINUE).relays(chunked(b"x"))
        assert play.answers(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        assert play.session.busy
        assert play.answers(NO_CONTENT)
        assert not play.session.busy

    def test_head_has_no_body(self, play):
        ping = PING.replace(b"GET", b"HEAD")
        for _ in range(2):
            assert play.relays(ping).answers(PONG.removesuffix(b"pong"))


class TestSentAhead:
    def test_waits_for_the_response(self, play):
        second = PING.replace(b"ping", b"info")
        assert play >> Client(PING, second) << Backend(PING)
        assert play.session.stalled
        assert play >> Client(PING) >> Backend(PONG) << Client(PONG) << Backend(second)
        assert play.session.stalled
        assert play >> Backend(PONG) << Client(PONG) << Backend(PING)
        assert not play.session.stalled
        assert play.answers(PONG)

    def test_part_of_a_request_waits_as_well(self, play):
        assert play >> Client(PING, PING[:9]) << Backend(PING)
        assert play.session.stalled
        assert play >> Backend(PONG) << Client(PONG)
        assert not play.session.stalled
        assert play >> Client(PING[9:]) << Backend(PING)

    def test_the_end_of_a_response_that_comes_in_parts(self, play):
        assert play >> Client(PING, PING) << Backend(PING)
        assert play.answers(PONG[:-1])
        assert play >> Backend(PONG[-1:]) << Client(PONG[-1:]) << Backend(PING)

    def test_many_at_once(self, play):
        """As many as a socket gives in one go, and more, do not pile up calls of calls."""
        assert play >> Client(PING * 5000) << Backend(PING)
        for _ in range(4999):
            assert play >> Backend(PONG) << Client(PONG) << Backend(PING)
        assert play.answers(PONG)


class TestEarlyResponse:
    """An engine may answer before it has all of the request."""

    def test_the_rest_of_the_request_goes_on(self):
        play = Playbook().relays(UPLOAD, b"5\r\nhe")
        assert play.answers(answer(400, b"no"))
        assert play.session.busy
        assert play.relays(b"llo\r\n").relays(b"0\r\n\r\n")
        assert not play.session.busy
        assert play.relays(PING).answers(PONG)

    def test_what_was_sent_ahead_goes_on_behind_it(self):
        play = Playbook().relays(UPLOAD).answers(answer(400, b"no"))
        assert play.relays(b"0\r\n\r\n", PING)
        assert not play.session.stalled
        assert play.answers(PONG)

    def test_a_second_response_is_none(self):
        play = Playbook().relays(UPLOAD).answers(answer(400, b"no")).answers(PONG)
        assert str(play.session.failed) == "the engine answered what it was not asked"

    def test_the_engine_hangs_up(self):
        play = Playbook().relays(UPLOAD)
        assert play.answers(answer(413, b"no", "Connection: close")) >> BackendEnds(goes_on=False)


class TestTally:
    def test_all_bytes_of_the_messages_count(self, play):
        request, response = UPLOAD + chunked(b"abc"), DOWNLOAD + chunked(b"defg")
        assert play >> Client(request, PING) << Backend(request)
        assert (play.tally.calls, play.tally.from_client) == (1, len(request))
        assert play >> Backend(CONTINUE, response) << Client(CONTINUE, response) << Backend(PING)
        assert play.tally.from_backend == len(CONTINUE + response)
        assert (play.tally.calls, play.tally.from_client) == (2, len(request + PING))

    def test_a_request_counts_once_its_head_is_complete(self, play):
        assert play >> Client(PING[:-1])
        assert (play.tally.calls, play.tally.from_client) == (0, 0)
        assert play >> Client(PING[-1:]) << Backend(PING)
        assert (play.tally.calls, play.tally.from_client) == (1, len(PING))


class TestEnds:
    """The client's end of sending, and the engine's."""

    def test_nothing_asked(self):
        assert Playbook() >> ClientEnds(goes_on=False)
        assert Playbook().relays(PING).answers(PONG) >> ClientEnds(goes_on=False)

    def test_in_a_head(self):
        play = Playbook() >> Client(PING[:-1]) >> ClientEnds(goes_on=False)
        assert not play.session.eof_to_backend

    def test_behind_a_request(self):
        """A client that has asked all it wants may still wait for the answer."""
        play = Playbook().relays(PING) >> ClientEnds(goes_on=True)
        assert play.session.eof_to_backend
        assert not play.session.eof_to_client
        assert not play.session.drained
        assert play.answers(PONG)
        assert play.session.drained

    def test_in_a_body(self):
        play = Playbook().relays(UPLOAD) >> ClientEnds(goes_on=True)
        assert play.session.eof_to_backend
        assert play.answers(answer(400, b"no"))
        assert not play.session.drained, "it is for the engine to hang up"
        assert play >> BackendEnds(goes_on=False)

    def test_behind_requests_sent_ahead(self):
        play = Playbook() >> Client(PING, PING) << Backend(PING) >> ClientEnds(goes_on=True)
        assert not play.session.eof_to_backend
        assert play >> Backend(PONG) << Client(PONG) << Backend(PING)
        assert play.session.eof_to_backend
        assert play.answers(PONG)
        assert play.session.drained

    def test_behind_part_of_a_request_sent_ahead(self):
        play = Playbook() >> Client(PING, PING[:-1]) << Backend(PING) >> ClientEnds(goes_on=True)
        assert play.answers(PONG)
        assert play.session.drained
        assert not play.session.eof_to_backend

    def test_the_engine_ends(self):
        assert Playbook() >> BackendEnds(goes_on=False)
        play = Playbook().relays(PING).answers(PONG[:-1]) >> BackendEnds(goes_on=False)
        assert not play.session.eof_to_client

    def test_a_side_is_gone(self):
        play = Playbook() >> Client(PING, PING) << Backend(PING) >> Gone() >> Gone()
        assert not play.session.busy
        assert not play.session.stalled


class TestDraining:
    def test_nothing_under_way(self):
        play = Playbook().relays(PING).answers(PONG)
        assert not play.session.drained
        assert play >> Drain()
        assert play.session.drained

    def test_the_exchange_under_way_ends(self):
        play = Playbook().relays(PING) >> Drain()
        assert not play.session.drained
        assert play.answers(PONG[:-1])
        assert not play.session.drained
        assert play.answers(PONG[-1:])
        assert play.session.drained

    def test_a_request_that_has_begun_is_under_way(self):
        play = Playbook() >> Client(PING[:1]) >> Drain()
        assert not play.session.drained
        assert play >> Client(PING[1:]) << Backend(PING)
        assert play.answers(PONG)
        assert play.session.drained

    def test_requests_sent_ahead_are_not_begun(self):
        play = Playbook() >> Client(PING, PING) << Backend(PING) >> Drain()
        assert play >> Client(PING)
        assert play.answers(PONG)
        assert play.session.drained
        assert play >> Client(PING)
        assert play.session.drained

    def test_nobody_waits_for_the_client(self):
        play = Playbook().relays(PING) >> Drain()
        play.session.cut_off()
        assert play.answers(PONG)
        assert play.session.drained
