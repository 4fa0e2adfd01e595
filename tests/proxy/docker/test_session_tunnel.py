"""Connections that leave HTTP, or never spoke it: bytes both ways."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import CallEnded
from koord_proxy.docker.http_messages import MAX_HEAD

from tests.support.docker_playbook import PING, PONG, Playbook, answer, arrived, post
from tests.support.playbook import Backend, BackendEnds, Client, ClientEnds, Drain, Gone, Release

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
        assert not play.session.warning

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


NO_REQUESTS = {
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "bare LF": b"GET /relay/ping HTTP/1.1\nHost: x\n\n",
    "TLS": b"\x16\x03\x01\x02\x00",
    "an unknown method": b"FETCH / HTTP/1.1\r\n\r\n",
    "two bodies": post("/hold/create", b"x", "Transfer-Encoding: chunked"),
    "a long head": b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD,
}


class TestNoHttp:
    @pytest.mark.parametrize("what", NO_REQUESTS)
    @pytest.mark.parametrize("before", [b"", PING])
    def test_a_request_goes_on_raw(self, what, before, play):
        if before:
            assert play.relays(before).answers(PONG)
        assert play.relays(NO_REQUESTS[what])
        warning = play.session.warning
        assert warning.startswith("the client's request is not understood: ")
        assert "\n" not in warning
        assert play.answers(answer(400, b"Bad Request"), RAW).relays(RAW, CREATE)
        assert play.session.warning == warning
        assert play.session.failed is None

    @pytest.mark.parametrize("what", NO_REQUESTS)
    def test_sent_ahead(self, what):
        play = Playbook() >> Client(PING, NO_REQUESTS[what]) << Backend(PING)
        assert play >> Backend(PONG) << Client(PONG) << Backend(NO_REQUESTS[what])
        assert play.session.warning

    @pytest.mark.parametrize("how", ["relay", "watch", "hold"])
    def test_a_body_goes_on_raw(self, how):
        head = post(f"/{how}/create", b"", "Transfer-Encoding: chunked")
        play = Playbook() >> Client(head) << Backend(head if how != "hold" else b"")
        wrong = b"1\r\nx\r\n" + b"no size\r\n"
        assert play >> Client(wrong) << Backend(wrong if how != "hold" else head + wrong)
        assert play.relays(RAW).answers(answer(400, b"Bad Request"))
        assert play.session.warning
        assert play >> Gone()

    @pytest.mark.parametrize(
        "garbage", [b"\x15\x03", b"HTTP/1.1 200 OK\n\n", b"HTTP/2.0 200\r\n\r\n"]
    )
    def test_a_response_goes_on_raw(self, garbage):
        play = Playbook() >> Client(PING, RAW) << Backend(PING)
        assert play >> Backend(garbage) << Client(garbage) << Backend(RAW)
        assert play.session.warning.startswith("the engine's answer is not understood: ")
        assert play.answers(RAW).relays(RAW)

    @pytest.mark.parametrize("how", ["watch", "hold"])
    def test_a_call_ends_with_such_a_response(self, how):
        request = post(f"/{how}/create", b"{}")
        play = Playbook() >> Client(request) << arrived(1, f"/{how}/create", b"{}")
        if how == "hold":
            play = play >> Release(1)
        head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (play << Backend(request)).answers(head)
        assert play >> Backend(b"no size\r\n") << CallEnded(1, None) << Client(b"no size\r\n")
        assert play >> Gone()

    def test_the_engine_speaks_unasked(self):
        """Hooks would have nothing of what follows on such a connection: it ends."""
        play = Playbook().relays(PING).answers(PONG, PONG)
        assert str(play.session.failed) == "the engine answered what it was not asked"
        assert play >> Client(PING)

    def test_the_engine_speaks_into_a_head(self):
        play = Playbook() >> Client(PING[:-1])
        assert play >> Backend(RAW) << Client(RAW)
        assert str(play.session.failed) == "the engine answered what it was not asked"
        assert play >> Client(PING[-1:], RAW)
