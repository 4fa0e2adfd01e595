"""The status server, asked over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from koord_service import page_server
from koord_service.build_info import build_info
from koord_service.sockets import SocketInUseError
from koord_service.status import (
    MakePage,
    Query,
    QueryError,
    StatusPage,
    StatusServer,
    json_page,
    metrics_page,
)
from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import PATIENCE

Pages = Mapping[str, MakePage]


def busy(_: Query) -> StatusPage:
    raise TimeoutError("the loop is busy")


def broken(_: Query) -> StatusPage:
    raise RuntimeError("no\nluck \udc80")


PAGES: Pages = {
    "/healthz": lambda _: StatusPage(b"ok\n"),
    "/sick": lambda _: json_page({"relay": "away"}, status=503),
    "/broken": broken,
    "/busy": busy,
    "/thread": lambda _: StatusPage(str(threading.current_thread().daemon).encode()),
    "/window": lambda query: StatusPage(f"{query.seconds('window', 60, 1, 3600):g}".encode()),
}


@contextlib.contextmanager
def serving(address: str = "127.0.0.1:0", pages: Pages = PAGES) -> Iterator[StatusServer]:
    server = StatusServer(address, pages)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def connect(server: StatusServer) -> socket.socket:
    if server.address.startswith("127.") or server.address.startswith("["):
        host, _, port = server.address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(server.address.removeprefix("unix://"))
    return connection


def ask(server: StatusServer, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Status, content type and body of one answer."""
    with connect(server) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection, method=method)
        try:
            answer.begin()
            return answer.status, answer.getheader("Content-Type", ""), answer.read()
        finally:
            answer.close()


def say(server: StatusServer, request: str) -> bytes:
    """All of the answer to a request that is sent as it stands."""
    with connect(server) as connection:
        connection.sendall(f"{request}\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(1000), b""))


def hung_up_on(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_pages() -> None:
    with serving() as server:
        assert ask(server, "/healthz") == (200, "text/plain; charset=utf-8", b"ok\n")
        assert ask(server, "/healthz?verbose=1")[0] == 200
        assert ask(server, "/thread")[2] == b"True"
        code, kind, body = ask(server, "/sick")
        assert (code, kind, json.loads(body)) == (503, "application/json", {"relay": "away"})
        answer = say(server, "HEAD /healthz HTTP/1.0")
        assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
        assert b"Content-Length: 3\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")


def test_unknown_pages_list_the_known() -> None:
    with serving() as server:
        for path in ("/", "/nope"):
            code, _, body = ask(server, path)
            assert code == 404
            assert body == (
                b"404 no such page; there are:\n"
                b"  /broken\n  /busy\n  /healthz\n  /sick\n  /thread\n  /window\n"
            )


def test_a_program_that_is_busy_has_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        assert ask(server, "/busy")[::2] == (500, b"500 /busy: TimeoutError: the loop is busy\n")
    assert not caplog.records


def test_a_page_that_raises_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        for _ in range(2):
            code, _, body = ask(server, "/broken")
            assert code == 500
            assert body == "500 /broken: RuntimeError: no luck �\n".encode()
        assert ask(server, "/healthz")[0] == 200
    (record,) = caplog.records
    assert (record.levelname, record.message) == ("ERROR", "page failed")
    assert "in broken\n" in record.fields["traceback"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 60),
        ("?window=90", 90),
        ("?window=1.5s", 1.5),
        ("?window=5m", 300),
        ("?window=1h&x=1", 3600),
    ],
)
def test_a_page_with_parameters(text: str, seconds: float) -> None:
    with serving() as server:
        assert ask(server, f"/window{text}")[::2] == (200, f"{seconds:g}".encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("window=", 'parameter "window" is ""; expected 1 to 3600 seconds'),
        ("window=2h", 'parameter "window" is "2h"'),
        ("window=-5", 'parameter "window" is "-5"'),
        ("window=nan", 'parameter "window" is "nan"'),
        ("window=%D9%A3m", 'parameter "window" is "٣m"'),
        ("window=1%0A2", 'parameter "window" is "1 2"'),
        ("window=%1b[31m", "�[31m"),
        ("window=1&window=2", 'parameter "window" is given twice'),
        ("&".join(f"x{i}=1" for i in range(65)), "more than 64 parameters"),
    ],
)
def test_parameters_that_cannot_be_are_one_line(text: str, words: str) -> None:
    with serving() as server:
        code, kind, body = ask(server, f"/window?{text}")
    assert (code, kind) == (400, "text/plain; charset=utf-8")
    assert body.decode().startswith("400 /window: ")
    assert words in body.decode()
    assert len(body.splitlines()) == 1


def test_a_choice() -> None:
    query = Query.parse("sort=cpu&empty=")
    assert query.choice("sort", ("cpu", "memory")) == "cpu"
    assert query.choice("class", ("LS", "BE"), "BE") == "BE"
    with pytest.raises(QueryError, match='parameter "sort" is "cpu"; expected one of a, b'):
        query.choice("sort", ("a", "b"))
    with pytest.raises(QueryError, match='parameter "kind" is missing; expected one of a, b'):
        query.choice("kind", ("a", "b"))


def test_a_whole_number() -> None:
    query = Query.parse("size=12&none=&long=0000000012&other=%D9%A3&less=0")
    assert query.number("size", 5, 1, 12) == 12
    assert query.number("missing", 5, 1, 12) == 5
    for name in ("none", "long", "other", "less"):
        with pytest.raises(QueryError, match=f'parameter "{name}" is ".*"; expected 1 to 12'):
            query.number(name, 5, 1, 12)


def test_a_page_s_own_headers_and_refusals() -> None:
    def gone(_: Query) -> StatusPage:
        raise QueryError("no more\nof this", 409)

    headers = {"X-Content-Type-Options": "nosniff"}
    pages: Pages = {"/gone": gone, "/": lambda _: StatusPage(b"x", headers=headers)}
    with serving(pages=pages) as server:
        assert ask(server, "/gone")[::2] == (409, b"409 /gone: no more of this\n")
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in say(server, "GET / HTTP/1.0")


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ("", b"no"),
        ("\r\nAccept: */*", b"no"),
        ("\r\nAccept: application/json", b"yes"),
        ("\r\naccept: text/html, Application/JSON;q=0.9, */*", b"yes"),
        ("\r\nAccept: text/html\r\nAccept: application/json", b"yes"),
        ("\r\nAccept: application/jsonlines", b"no"),
    ],
)
def test_the_kind_of_answer_that_is_asked_for(headers: str, wanted: bytes) -> None:
    def page(query: Query) -> StatusPage:
        return StatusPage(b"yes" if query.accepts("application/json") else b"no")

    with serving(pages={"/": page}) as server:
        assert say(server, f"GET / HTTP/1.0{headers}").endswith(b"\r\n\r\n" + wanted)


@pytest.mark.parametrize("request_line", ["POST /healthz HTTP/1.1", "nonsense", "GET / HTTP/9.9"])
def test_other_requests_are_refused_in_one_line(
    capfd: pytest.CaptureFixture[str], request_line: str
) -> None:
    with serving() as server:
        answer = say(server, request_line)
        assert b"<" not in answer
        assert len(answer.rpartition(b"\r\n")[2].splitlines()) == 1
        assert ask(server, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_client_that_hangs_up_early_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    pages: Pages = {"/big": lambda _: StatusPage(b"x" * 20_000_000), **PAGES}
    with serving(pages=pages) as server:
        with connect(server) as connection:
            connection.sendall(b"GET /big HTTP/1.0\r\n\r\n")
            connection.recv(1)
        assert ask(server, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_silent_client_blocks_nobody_and_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_server.PageHandler.timeout == 10.0
    monkeypatch.setattr(page_server.PageHandler, "timeout", 1.0)
    with serving() as server, connect(server) as silent:
        assert ask(server, "/healthz")[0] == 200
        assert hung_up_on(silent)


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "_CONNECTIONS", 3)
    monkeypatch.setattr(page_server.PageHandler, "timeout", 2 * PATIENCE)
    with serving() as server, contextlib.ExitStack() as stack:
        threads = threading.active_count()
        silent = [stack.enter_context(connect(server)) for _ in range(6)]
        # The newcomers have the places of those that were there first.
        assert all(hung_up_on(connection) for connection in silent[:3])
        assert threading.active_count() <= threads + 3
        for connection in silent:
            connection.close()
        deadline = time.monotonic() + PATIENCE
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.01)
        assert ask(server, "/healthz")[0] == 200


def test_slow_clients_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server.PageHandler, "timeout", 2 * PATIENCE)
    with serving() as server, contextlib.ExitStack() as stack:
        for _ in range(2 * page_server._CONNECTIONS):
            slow = stack.enter_context(connect(server))
            slow.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        assert [ask(server, "/healthz")[0] for _ in range(5)] == [200] * 5


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with serving("[::1]:0") as server:
        assert server.address.startswith("[::1]:")
        assert ask(server, "/healthz")[0] == 200


@pytest.mark.parametrize("prefix", ["unix://", ""])
def test_unix_socket(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "run" / "status.sock"
    with serving(f"{prefix}{path}") as server:
        assert server.address == f"{prefix}{path}"
        assert path.stat().st_mode & 0o777 == 0o660
        # Any name will do over it.
        assert say(server, "GET /healthz HTTP/1.1\r\nHost: x").startswith(b"HTTP/1.0 200 ")
        with pytest.raises(SocketInUseError, match="a running server answers"):
            StatusServer(str(path), PAGES).start()
    assert not path.exists()
    everybody = StatusServer(str(path), PAGES, mode=0o666)
    everybody.start()
    assert path.stat().st_mode & 0o777 == 0o666
    everybody.stop()


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        ("0.0.0.0:9317 :9317 [::]:9317 10.0.0.1:80 example.com:80 *:80",
         "only loopback and unix:// are served"),
        (" 127.0.0.1 127.0.0.1: 127.0.0.1:x [::1]:70000", r"expected 127\.0\.0\.1:PORT or unix:"),
    ],
)  # fmt: skip
def test_no_other_address(addresses: str, words: str) -> None:
    for address in addresses.split(" "):
        with pytest.raises(ValueError, match=words):
            StatusServer(address, PAGES)


def test_on_the_network_where_that_is_wanted() -> None:
    server = StatusServer(":0", PAGES, network=True)
    server.start()
    address = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    with socket.create_connection(address) as connection:
        # Probes and Prometheus ask by the pod's address.
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 10.0.0.7:8080\r\n\r\n")
        answer = connection.recv(100)
    server.stop()
    assert answer.startswith(b"HTTP/1.0 200")


def test_a_port_in_use_is_one_clear_error() -> None:
    with serving() as server:
        second, words = StatusServer(server.address, PAGES), "cannot listen: Address already in use"
        with pytest.raises(OSError, match=f"{words}.*{server.address}"):
            second.start()
        second.stop()


def test_start_and_stop_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server.PageHandler, "timeout", 2 * PATIENCE)
    server = StatusServer("127.0.0.1:0", PAGES)
    assert server.address == "127.0.0.1:0"
    server.stop()
    server.start()
    server.start()
    assert ask(server, "/healthz")[0] == 200
    with connect(server):
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < PATIENCE
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(server, "/healthz")
    server.start()
    assert ask(server, "/healthz")[0] == 200
    server.stop()


def test_json_page() -> None:
    page = json_page({"größe": [1, None]})
    assert json.loads(page.body) == {"größe": [1, None]}
    assert page.status == 200
    assert page.body.endswith(b"\n")
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_page(float("nan"))


def test_metrics_page() -> None:
    registry = CollectorRegistry()
    Counter("relayed_calls", "Calls relayed.", registry=registry).inc(3)
    page = metrics_page(registry, "koordlet")
    assert page.content_type.startswith("text/plain; version=")
    families = {
        family.name: family for family in text_string_to_metric_families(page.body.decode())
    }
    assert families["relayed_calls"].samples[0].value == 3
    assert families["pykoord_build_info"].samples[0].labels == {
        "program": "koordlet",
        **build_info().labels(),
    }
    # The names and types, and about the values, of the library that the text is written like.
    for theirs in ProcessCollector(registry=None).collect():
        ours = families[theirs.name]
        assert ours.type == theirs.type
        expected, slack = theirs.samples[0].value, 10 if theirs.name == "process_open_fds" else 1
        assert ours.samples[0].value == pytest.approx(expected, abs=slack, rel=0.2), theirs.name


@pytest.mark.parametrize(
    ("host", "code"),
    [
        *(("127.0.0.1:9317", 200), ("[::1]:9317", 200), ("[::1]", 200), ("LocalHost", 200)),
        *(("evil.example:9317", 403), ("10.0.0.1", 403), ("", 403)),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_over_tcp_a_name_that_leads_here_by_chance_is_refused(host: str, code: int) -> None:
    with serving("localhost:0") as server:
        assert server.address.startswith("127.0.0.1:")
        answer = say(server, f"GET /healthz HTTP/1.1\r\nHost: {host}")
    assert answer.startswith(f"HTTP/1.0 {code} ".encode())


def test_one_that_ends_leaves_its_successors_socket(tmp_path: Path) -> None:
    path = tmp_path / "status.sock"
    before = StatusServer(str(path), PAGES)
    before.start()
    # As if it had been hung when the other one looked.
    path.unlink()
    with serving(str(path)) as after:
        before.stop()
        assert ask(after, "/healthz")[0] == 200
    assert not path.exists()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/nodes/n1", (200, b"n1")),
        ("/nodes/a%2Fb?name=other", (200, b"a/b")),
        ("/nodes/all", (200, b"all of them")),
        ("/nodes/", (404, None)),
        ("/nodes/n1/pods", (404, None)),
        ("/nodes/:name", (200, b":name")),
    ],
)
def test_a_part_of_a_path_may_be_chosen(path: str, answer: tuple[int, bytes | None]) -> None:
    pages: Pages = {
        "/nodes/:name": lambda query: StatusPage(query.values["name"].encode()),
        "/nodes/all": lambda _: StatusPage(b"all of them"),
    }
    with serving(pages=pages) as server:
        code, _, body = ask(server, path)
        assert (code, body if code == 200 else None) == answer


class TestUpdates:
    """PUT changes something, so it is for this machine alone."""

    @pytest.fixture
    def bodies(self) -> list[str]:
        return []

    @pytest.fixture
    def server(self, bodies: list[str]) -> Iterator[StatusServer]:
        def update(text: str) -> StatusPage:
            if text == "bad":
                raise QueryError("not this")
            bodies.append(text)
            return StatusPage(b"done\n")

        made = StatusServer("127.0.0.1:0", PAGES, network=True, updates={"/level": update})
        made.start()
        yield made
        made.stop()

    @pytest.mark.parametrize(
        ("request_text", "status"),
        [
            ("PUT /level HTTP/1.0\r\nContent-Length: 2\r\n\r\nup", 200),
            ("PUT /level HTTP/1.0\r\nHost: [::1]:80\r\nContent-Length: 2\r\n\r\nup", 200),
            ("PUT /level HTTP/1.0\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\nup", 403),
            ("PUT /level HTTP/1.0\r\nContent-Length: 3\r\n\r\nbad", 400),
            ("PUT /level HTTP/1.0\r\nContent-Length: 1\r\n\r\n\xff", 400),
            ("PUT /level HTTP/1.0\r\n\r\n", 411),
            ("PUT /level HTTP/1.0\r\nContent-Length: -1\r\n\r\n", 411),
            ("PUT /level HTTP/1.0\r\nContent-Length: 1025\r\n\r\n", 413),
            ("PUT /healthz HTTP/1.0\r\nContent-Length: 2\r\n\r\nup", 501),
        ],
    )
    def test_who_may_change_what(
        self, server: StatusServer, bodies: list[str], request_text: str, status: int
    ) -> None:
        with connect(server) as connection:
            connection.sendall(request_text.encode("latin-1"))
            answer = b"".join(iter(lambda: connection.recv(1000), b""))
        assert int(answer.split()[1]) == status
        assert bodies == (["up"] if status == 200 else [])

    def test_another_machine_changes_nothing(
        self, server: StatusServer, bodies: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(page_server, "peer_host", lambda _: "10.0.0.7")
        answer = say(server, "PUT /level HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0")
        assert b" 403 " in answer
        assert not bodies
        assert ask(server, "/healthz")[0] == 200
