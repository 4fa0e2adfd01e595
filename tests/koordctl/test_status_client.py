import socket
import threading
from pathlib import Path

import pytest
from koord_service.status import StatusPage
from koordctl.errors import AskError, UsageError
from koordctl.status_client import ask

from koordctl import status_client
from tests.koordctl.conftest import Serve
from tests.support.processes import PATIENCE


def test_a_plain_path_is_a_unix_socket_too(serve: Serve, tmp_path: Path) -> None:
    serve(f"{tmp_path}/s", healthz=StatusPage(b"here"))
    assert ask(f"{tmp_path}/s", "/healthz") == b"here"


@pytest.mark.parametrize(
    "address", ["", "nine", "127.0.0.1", ":9319", "127.0.0.1:0", "h:70000", "h:٣", "unix://s"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="expected 127"):
        ask(address, "/healthz")


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(AskError, match=r"no answer from unix://.*/s: No such file.*running"):
        ask(f"unix://{tmp_path}/s", "/healthz")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(AskError, match=f"127.0.0.1:{port}: Connection refused"):
        ask(f"127.0.0.1:{port}", "/healthz")


def test_somebody_else_there(serve: Serve) -> None:
    address = serve(metrics=StatusPage(b"")).address
    with pytest.raises(AskError, match=f"{address} answers /healthz with 404; is this .* its log"):
        ask(address, "/healthz")


def test_an_answer_that_does_not_end_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_client, "ANSWER_SECONDS", -1.0)
    address = serve(healthz=StatusPage(b"here")).address
    with pytest.raises(AskError, match=r"no answer from .*: the answer is not complete after"):
        ask(address, "/healthz")


def test_a_page_that_failed_says_why(serve: Serve) -> None:
    failed = StatusPage(b"500 /healthz: ValueError: no luck\n", status=500)
    address = serve(healthz=failed).address
    with pytest.raises(AskError, match="says: 500 /healthz: ValueError: no luck"):
        ask(address, "/healthz")


def test_somebody_who_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        server.settimeout(PATIENCE)

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(1)
            connection.sendall(b"220 mail.example\r\n")
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(AskError, match="no answer from"):
            ask(address, "/healthz")
        thread.join()
