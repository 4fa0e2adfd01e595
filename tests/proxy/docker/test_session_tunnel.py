"""Connections that leave HTTP: bytes both ways."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallEnded

from tests.support.docker_playbook import PING, PONG, Playbook, answer, arrived, post
from tests.support.playbook import Backend, BackendEnds, Client, ClientEnds, Drain, Gone

UPGRADE = ("Connection: Upgrade", "Upgrade: tcp")
EXEC = post("/relay/exec", b'{"Tty": true}', *UPGRADE)
UPGRADED = (
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
    b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)
HIJACKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
RAW = b"\x00\r\n\r\nHTTP/1.1 \xff GET /"


@pytest.fixture(params=[UPGRADED, HIJACKED], ids=["upgraded", "hijacked"])
def switched(request):
    return request.param


class TestTunnel:
    def test_bytes_go_both_ways(self, switched):
        play = Playbook().relays(EXEC).answers(switched)
        for _ in range(2):
            assert play.relays(RAW).answers(RAW)
        assert play.session.busy

    def test_bytes_behind_the_head(self, switched):
        play = Playbook().relays(EXEC)
        assert play.answers(switched, RAW).relays(PING, CREATE)

    def test_bytes_that_were_sent_ahead(self, switched):
        play = Playbook() >> Client(EXEC, RAW) << Backend(EXEC)
        assert play.session.stalled
        assert play >> Client(RAW) >> Backend(switched) << Client(switched) << Backend(RAW, RAW)
        assert not play.session.stalled

    def test_bytes_are_counted(self, switched):
        play = Playbook() >> Client(EXEC, b"1") << Backend(EXEC)
        assert play >> Backend(switched, b"22") << Client(switched, b"22") << Backend(b"1")
        assert play.relays(b"333").answers(b"4444")
        assert play.tally.calls == 1
        assert play.tally.from_client == len(EXEC) + 4
        assert play.tally.from_backend == len(switched) + 6

    def test_before_the_request_is_complete(self):
        play = Playbook().relays(EXEC[:-1]).answers(HIJACKED)
        assert play.relays(EXEC[-1:], PING, PING)

    def test_an_upgrade_that_is_refused_is_none(self):
        play = Playbook() >> Client(EXEC, PING) << Backend(EXEC)
        refused = answer(409, b"not running")
        assert play >> Backend(refused) << Client(refused) << Backend(PING)
        assert play.answers(PONG)

    def test_a_response_that_ends_before_the_connection_does_is_none(self):
        play = Playbook() >> Client(PING, PING) << Backend(PING)
        closing = answer(200, b"x", "Connection: close")
        assert play >> Backend(closing) << Client(closing) << Backend(PING)

    def test_the_end_of_a_watched_call(self, switched):
        request = post("/watch/start")
        play = Playbook() >> Client(request) << arrived(1, "/watch/start", b"") << Backend(request)
        outcome = b"" if switched is HIJACKED else None
        assert play >> Backend(switched, RAW) << CallEnded(1, outcome) << Client(switched, RAW)
        assert play >> Gone()


CREATE = post("/hold/create", b"{}")


class TestEnds:
    def test_the_client_is_first(self, switched):
        play = Playbook().relays(EXEC).answers(switched, RAW) >> ClientEnds(goes_on=True)
        assert (play.session.eof_to_backend, play.session.eof_to_client) == (True, False)
        assert play.answers(RAW)
        assert play >> BackendEnds(goes_on=True)
        assert (play.session.eof_to_backend, play.session.eof_to_client) == (True, True)

    def test_the_engine_is_first(self, switched):
        play = Playbook().relays(EXEC).answers(switched, RAW) >> BackendEnds(goes_on=True)
        assert (play.session.eof_to_backend, play.session.eof_to_client) == (False, True)
        assert play.relays(RAW)
        assert play >> ClientEnds(goes_on=True)
        assert (play.session.eof_to_backend, play.session.eof_to_client) == (True, True)

    def test_the_client_ends_before_it_begins(self, switched):
        play = Playbook() >> Client(EXEC, RAW) << Backend(EXEC) >> ClientEnds(goes_on=True)
        assert not play.session.eof_to_backend
        assert play >> Backend(switched) << Client(switched) << Backend(RAW)
        assert play.session.eof_to_backend

    def test_draining_waits_for_it(self, switched):
        play = Playbook().relays(EXEC).answers(switched) >> Drain()
        assert not play.session.drained
        assert play.relays(RAW).answers(RAW)
