"""Requests that are read: held until a decision, or watched as they pass."""

from __future__ import annotations

from unittest import mock

import pytest
from koord_proxy.contract.events import CallAbandoned, CallEnded
from koord_proxy.docker import session as session_module
from koord_proxy.docker.session import EngineError, TooLargeError

from tests.support.docker_playbook import (
    CONTINUE,
    NO_CONTENT,
    PING,
    PONG,
    Playbook,
    answer,
    arrived,
    chunked,
    post,
)
from tests.support.playbook import (
    Backend,
    BackendEnds,
    Client,
    ClientEnds,
    Drain,
    Gone,
    Refuse,
    Release,
)

HOLD, WATCH = "/hold/create?name=k8s_a", "/watch/create?name=k8s_a"
BODY = b'{"Image": "x"}'
CREATE = post("/hold/create", BODY)
ASKED = arrived(1, "/hold/create", BODY)
ENDED = CallEnded(1, b'{"Id": "1"}')
CREATED = answer(201, b'{"Id": "1"}')
CHUNKS = post("/hold/create", b"", "Transfer-Encoding: chunked") + chunked(
    b"{", b"}\n", b"\r\n\r\n"
)
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b'Content-Length: 17\r\n\r\n{"message": "no"}'
)
LAST_REFUSAL = REFUSAL.replace(b"17\r\n", b"17\r\nConnection: close\r\n")


def held(request: bytes = CREATE, body: bytes = BODY) -> Playbook:
    return Playbook() >> Client(request) << arrived(1, "/hold/create", body)


@pytest.fixture
def small_limits():
    with (
        mock.patch.object(session_module, "MAX_MESSAGE", 100),
        mock.patch.object(session_module, "MAX_RESPONSE", 50),
    ):
        yield


@pytest.mark.parametrize("single", [False, True])
def test_nothing_goes_on_before_it_is_released(single, play):
    if single:
        play.byte_by_byte()
    assert play >> Client(CREATE[:-1]) >> Client(CREATE[-1:]) << ASKED
    assert play >> Release(1) << Backend(CREATE)
    assert play >> Backend(CREATED) << ENDED << Client(CREATED)
    assert not play.session.busy


WAITING = post("/hold/create", BODY, "Expect: 100-continue", "X: y")
"""Of a client that waits until it may send the body."""
OLD = WAITING.replace(b"HTTP/1.1", b"HTTP/1.0")
NO_BODY = post("/hold/create", b"", "Expect: 100-continue")


@pytest.mark.parametrize(
    ("request_", "body", "changed", "sent"),
    [
        (CREATE, BODY, None, CREATE),
        (CREATE, BODY, b"{}", post("/hold/create", b"{}")),
        (CREATE, BODY, b"", post("/hold/create", b"", "Content-Length: 0")),
        (CHUNKS, b"{}\n\r\n\r\n", None, CHUNKS),
        (CHUNKS, b"{}\n\r\n\r\n", b"[]", post("/hold/create", b"[]")),
        (WAITING, BODY, None, post("/hold/create", BODY, "X: y")),
        (WAITING, BODY, b"{}", post("/hold/create", b"{}", "X: y")),
        (NO_BODY, b"", None, post("/hold/create")),
        # An old client knows no such thing.
        (OLD, BODY, None, OLD),
    ],
    ids=[
        *("as it came", "another", "nothing", "chunks", "in place of chunks"),
        *("waiting", "waiting, another", "waiting with nothing", "old"),
    ],
)
def test_what_goes_on(request_, body, changed, sent):
    play = held(request_, body)
    if request_ is WAITING:
        play = play << Client(CONTINUE)
    assert play >> Release(1, changed) << Backend(sent)


class TestHeld:
    def test_the_method_is_the_routes_and_the_target_is_whole(self, play):
        play.session.receive_from_client(b"DELETE /hold/remove HTTP/1.1\r\n\r\n")
        (asked,) = play.session.requests
        assert (asked.method, asked.target) == ("remove", "DELETE /hold/remove")
        assert (asked.message, asked.held, asked.problem) == (b"", True, "")

    def test_streams_are_numbered(self, play):
        second = post("/hold/start")
        assert play.relays(PING).answers(PONG)
        assert play >> Client(second) << arrived(2, "/hold/start", b"")
        assert play >> Release(1) >> Refuse(1) >> Release(3)
        assert play >> Release(2) << Backend(second)
        assert play >> Backend(NO_CONTENT) << CallEnded(2, b"") << Client(NO_CONTENT)

    def test_what_was_sent_ahead_waits(self, play):
        assert play >> Client(CREATE, PING) << ASKED
        assert play.session.stalled
        assert play >> Release(1) << Backend(CREATE)
        assert play >> Backend(CREATED) << ENDED << Client(CREATED) << Backend(PING)

    def test_the_next_held_one_is_reported_behind_the_end_of_this_one(self, play):
        assert play >> Client(CREATE, CREATE) << ASKED >> Release(1) << Backend(CREATE)
        again = arrived(2, "/hold/create", BODY)
        assert play >> Backend(CREATED) << ENDED << again << Client(CREATED)
        assert play >> Refuse(2) << Client(REFUSAL)


class TestExpect:
    HEAD = WAITING.removesuffix(BODY)

    def test_may_go_on_at_once(self, play):
        assert play >> Client(self.HEAD) << Client(CONTINUE)
        assert play >> Client(BODY[:3]) >> Client(BODY[3:]) << ASKED

    def test_of_a_watched_request_it_is_the_engine_that_answers(self, play):
        assert play.relays(self.HEAD.replace(b"/hold", b"/watch")).answers(CONTINUE)
        assert play >> Client(BODY) << arrived(1, "/watch/create", BODY) << Backend(BODY)
        assert play >> Backend(CREATED) << ENDED << Client(CREATED)

    def test_sent_ahead_it_comes_behind_the_response(self, play):
        assert play >> Client(PING, self.HEAD) << Backend(PING)
        assert play >> Backend(PONG) << Client(PONG, CONTINUE)


class TestRefused:
    def test_the_client_hears_and_goes_on(self):
        play = held() >> Refuse(1) << Client(REFUSAL)
        assert not play.session.busy
        assert not play.session.drained
        assert play.relays(PING).answers(PONG)

    def test_what_was_sent_ahead_goes_on(self):
        play = Playbook() >> Client(CREATE, PING) << ASKED
        assert play >> Refuse(1) << Client(REFUSAL) << Backend(PING)
        assert play.answers(PONG)

    @pytest.mark.parametrize(
        "request_",
        [
            post("/hold/create", b"{}", "Connection: close"),
            post("/hold/create", b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
        ],
    )
    def test_a_last_request_ends_the_connection(self, request_):
        play = held(request_, b"{}") >> Refuse(1) << Client(LAST_REFUSAL)
        assert play.session.drained
        assert play.session.failed is None

    def test_while_draining_it_ends_the_connection(self):
        play = held() >> Drain() >> Refuse(1) << Client(LAST_REFUSAL)
        assert play.session.drained


class TestTooLarge:
    TOO_LARGE = (
        b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\n"
        b"Content-Length: 97\r\nConnection: close\r\n\r\n"
        b'{"message": "koord-runtime-proxy: the request is larger than what is held'
        b' (100 bytes a message)"}'
    )

    @pytest.mark.parametrize(
        "request_",
        [
            post("/hold/create", b"", "Content-Length: 101"),
            post("/hold/create", b"", "Content-Length: 101", "Expect: 100-continue"),
            post("/hold/create", b"x" * 101),
            post("/hold/create", b"", "Transfer-Encoding: chunked") + chunked(b"x" * 101),
            post("/hold/create", b"", "Transfer-Encoding: chunked") + chunked(*[b"x"] * 30),
            post("/hold/create", b"x" * 101) + CREATE,
        ],
        ids=["announced", "expecting", "sent", "chunk", "chunks", "behind"],
    )
    def test_is_refused_and_ends_the_connection(self, small_limits, request_):
        play = Playbook() >> Client(request_) << Client(self.TOO_LARGE)
        assert isinstance(play.session.failed, TooLargeError)
        assert str(play.session.failed).startswith("POST /hold/create: ")
        assert play >> Client(b"x" * 1000) >> Backend(b"x")
        assert not play.session.stalled

    def test_as_much_as_allowed_is_held(self, small_limits):
        body = b"x" * 100
        play = held(post("/hold/create", body), body)
        assert play >> Release(1, body * 2) << Backend(post("/hold/create", body * 2))

    def test_a_watched_one_passes_and_is_not_read(self, small_limits):
        for request in (
            post("/watch/create", b"x" * 101),
            post("/watch/create", b"", "Transfer-Encoding: chunked") + chunked(*[b"x" * 50] * 3),
        ):
            play = Playbook() >> Client(request) << Backend(request)
            assert play << arrived(1, "/watch/create", None, "it is larger than 100 bytes")
            assert play >> Backend(CREATED) << ENDED << Client(CREATED)

    def test_what_is_relayed_has_no_limit(self, small_limits):
        assert Playbook().relays(post("/relay/build", b"x" * 1000)).answers(PONG)

    def test_a_response_passes_and_is_not_read(self, small_limits):
        large = answer(200, b"x" * 51)
        play = held() >> Release(1) << Backend(CREATE)
        assert play >> Backend(large) << CallEnded(1, b"") << Client(large)


class TestWatched:
    REQUEST = post("/watch/create", b"abc")

    def test_passes_at_once_and_is_reported_with_its_last_byte(self, play):
        for i in range(len(self.REQUEST) - 4):
            assert play >> Client(self.REQUEST[i : i + 1])
        assert play >> Client(self.REQUEST[-4:-3]) << Backend(self.REQUEST[:-3])
        assert play.relays(b"a").relays(b"b")
        assert play >> Client(b"c") << arrived(1, "/watch/create", b"abc") << Backend(b"c")
        assert play.answers(CREATED[:-1])
        last = CREATED[-1:]
        assert play >> Backend(last) << ENDED << Client(last)

    def test_without_a_body_it_is_reported_with_its_head(self):
        assert watched() >> Backend(NO_CONTENT) << CallEnded(1, b"") << Client(NO_CONTENT)

    def test_an_early_response_ends_it_when_all_is_sent(self):
        """Before that nobody was informed of it, and afterwards it would never end."""
        play = Playbook().relays(self.REQUEST[:-1]).answers(CREATED)
        assert play >> Client(b"c") << arrived(1, "/watch/create", b"abc") << ENDED << Backend(b"c")

    def test_an_early_response_to_what_never_is_complete(self):
        assert Playbook().relays(self.REQUEST[:-1]).answers(CREATED) >> Gone()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OUTCOMES = [
    ("POST", "create", answer(201, b"{}"), b"{}"),
    ("POST", "create", answer(200, b""), b""),
    ("POST", "start", NO_CONTENT, b""),
    ("POST", "start", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", b""),
    ("POST", "create", CHUNKED + chunked(b"{", b"}"), b"{}"),
    ("POST", "stop", answer(404, b"gone"), b"gone"),
    ("DELETE", "remove", answer(404, b"gone"), b"gone"),
    ("POST", "create", answer(404, b"no image"), None),
    ("POST", "start", answer(404, b"gone"), None),
    ("POST", "update", answer(404, b"gone"), None),
    ("POST", "stop", answer(500, b"no"), None),
    ("POST", "create", answer(409, b"no"), None),
    ("POST", "create", answer(301, b"there"), None),
    ("POST", "create", CONTINUE + answer(201, b"{}"), b"{}"),
]


@pytest.mark.parametrize("how", ["hold", "watch"])
@pytest.mark.parametrize(("verb", "call", "response", "outcome"), OUTCOMES)
def test_how_a_call_ended(how, verb, call, response, outcome, play):
    session = play.session
    session.receive_from_client(f"{verb} /{how}/{call} HTTP/1.1\r\n\r\n".encode())
    session.release(1)
    session.requests.clear()
    session.receive_from_backend(response)
    assert session.requests == [CallEnded(1, outcome)]
    assert b"".join(session.to_client) == response
    assert not session.busy


def watched() -> Playbook:
    request = post("/watch/start")
    return Playbook() >> Client(request) << arrived(1, "/watch/start", b"") << Backend(request)


class TestOver:
    """What becomes of a call when the connection ends."""

    @pytest.mark.parametrize(
        ("before", "reported"),
        [
            (
                lambda: (held() >> Release(1) << Backend(CREATE)).answers(CREATED[:-1]),
                CallEnded(1, None),
            ),
            (lambda: Playbook().relays(post("/watch/create", b"abc")[:-1]), None),
            (lambda: held() >> ClientEnds(goes_on=False), CallAbandoned(1)),
            (lambda: held() >> BackendEnds(goes_on=False), CallAbandoned(1)),
            (lambda: Playbook() >> Client(CREATE[:-1]) >> ClientEnds(goes_on=False), None),
        ],
        ids=["answered in part", "watched in part", "client ended", "engine ended", "part ended"],
    )
    def test_what_the_shell_hears(self, before, reported):
        play = before() >> Gone()
        assert play if reported is None else play << reported

    def test_the_client_of_a_released_one_may_wait_for_the_answer(self):
        play = held() >> Release(1) << Backend(CREATE) >> ClientEnds(goes_on=True)
        assert play.session.eof_to_backend
        assert play >> Backend(CREATED) << ENDED << Client(CREATED)
        assert play.session.drained

    def test_a_held_one_sent_ahead_by_a_client_that_ended(self):
        play = Playbook() >> Client(PING, CREATE) << Backend(PING) >> ClientEnds(goes_on=True)
        assert play >> Backend(PONG) << arrived(2, "/hold/create", BODY) << Client(PONG)
        assert not play.session.eof_to_backend
        assert play >> Release(2) << Backend(CREATE)
        assert play.session.eof_to_backend

    def test_half_a_held_one_sent_ahead_by_a_client_that_ended(self):
        play = Playbook() >> Client(PING, CREATE[:-1]) << Backend(PING) >> ClientEnds(goes_on=True)
        assert play.answers(PONG)
        assert play.session.drained

    @pytest.mark.parametrize("request_", [CREATE, CREATE[:-1]])
    def test_the_engine_speaks_while_one_is_held(self, request_, play):
        """Nobody can tell what that would answer; the request goes nowhere any more."""
        play.session.receive_from_client(request_)
        reported = len(play.session.requests)
        play.session.requests.clear()
        play.session.receive_from_backend(PONG)
        assert isinstance(play.session.failed, EngineError)
        assert play.session.requests == [CallAbandoned(1)] * reported
        assert (play.session.to_client, play.session.to_backend) == ([PONG], [])
