import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, OpenerDirector, Request

import pytest
from koordlet.states import pod_source
from koordlet.states.pod_source import fetch

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A kubelet's read-only port that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/pods"
        finally:
            server.shutdown()
            thread.join()


def raw(*pieces: bytes) -> Answer:
    return lambda handler: [handler.wfile.write(piece) for piece in pieces] and None


def test_a_file() -> None:
    assert fetch(__file__, 1.0) == Path(__file__).read_bytes()
    with pytest.raises(OSError, match="/not/there"):
        fetch("/not/there", 1.0)


def test_a_plain_port() -> None:
    with serving(raw(b"HTTP/1.0 200 OK\r\n\r\n{}")) as url:
        assert fetch(url, 5.0) == b"{}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.0 500 broken\r\n\r\n", "broken"),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", "Unauthorized"),
        (b"no HTTP\r\n", "no HTTP"),
    ],
)
def test_what_is_no_answer_says_from_where_and_why(answer: bytes, reason: str) -> None:
    with serving(raw(answer)) as url, pytest.raises(OSError, match=reason) as found:
        fetch(url, 5.0)
    assert str(found.value).startswith(f"{url}: ")


def test_a_redirect_takes_nothing_elsewhere() -> None:
    with (
        serving(raw(b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")) as url,
        pytest.raises(OSError, match="Found"),
    ):
        fetch(url, 5.0)


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(raw(b"HTTP/1.0 200 OK\r\n\r\n{}")) as url:
        assert fetch(url, 5.0) == b"{}"


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/pods"
        with pytest.raises(OSError, match=f"^{url}: .*refused"):
            fetch(url, 5.0)


def test_a_kubelet_that_hangs_costs_no_more_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/pods"
        with pytest.raises(OSError, match=f"^{url}: timed out"):
            fetch(url, 0.05)


class TestSecure:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Request, Any]]:
        """Requests that would go out, with what they are verified by."""
        seen: list[tuple[Request, Any]] = []

        def open_(opener: OpenerDirector, request: Request, *, timeout: float) -> BytesIO:
            [secure] = [one for one in opener.handlers if isinstance(one, HTTPSHandler)]
            seen.append((request, secure._context))  # type: ignore[attr-defined]
            return BytesIO(b"{}")

        monkeypatch.setattr(OpenerDirector, "open", open_)
        return seen

    @pytest.fixture
    def account(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(pod_source, "_ACCOUNT", tmp_path)
        return tmp_path

    def test_the_account_s_token_is_sent(
        self, asked: list[tuple[Request, Any]], account: Path
    ) -> None:
        (account / "token").write_text("secret\n")
        assert fetch("https://node:10250/pods", 1.0) == b"{}"
        [(request, context)] = asked
        assert request.get_header("Authorization") == "Bearer secret"
        assert context.check_hostname

    def test_over_http_it_is_not(self, asked: list[tuple[Request, Any]], account: Path) -> None:
        (account / "token").write_text("secret\n")
        fetch("http://node:10255/pods", 1.0)
        [(request, _)] = asked
        assert not request.has_header("Authorization")

    def test_without_an_account_nothing_is_sent(
        self, asked: list[tuple[Request, Any]], account: Path
    ) -> None:
        fetch("https://node:10250/pods", 1.0)
        [(request, _)] = asked
        assert not request.has_header("Authorization")

    def test_an_authority_that_is_no_certificate_is_an_error(
        self, asked: list[tuple[Request, Any]], account: Path
    ) -> None:
        (account / "ca.crt").write_text("nothing")
        with pytest.raises(OSError, match="NO_CERTIFICATE_OR_CRL_FOUND"):
            fetch("https://node:10250/pods", 1.0)
        assert asked == []
