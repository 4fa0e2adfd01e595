"""HTTP over a unix socket."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from koord_service.unix_http import UnixConnection

from tests.support.processes import PATIENCE


def test_a_request_and_its_answer(tmp_path: Path) -> None:
    path, heard = tmp_path / "a b", []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def answer() -> None:
        client, _ = listening.accept()
        with client:
            heard.append(client.recv(1 << 16))
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")

    thread = threading.Thread(target=answer)
    thread.start()
    connection = UnixConnection(path, timeout=PATIENCE)
    connection.request("GET", "/page")
    assert connection.getresponse().read() == b"OK"
    connection.close()
    thread.join()
    listening.close()
    assert heard[0].startswith(b"GET /page HTTP/1.1\r\nHost: localhost\r\n")


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        UnixConnection(tmp_path / "nobody", timeout=PATIENCE).connect()


def test_one_who_says_nothing(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    connection = UnixConnection(tmp_path / "s", timeout=0.05)
    connection.request("GET", "/")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    listening.close()
