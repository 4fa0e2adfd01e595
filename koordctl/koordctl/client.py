"""Asking a status page, on a loopback port or a unix socket."""

from __future__ import annotations

import http.client
import socket

TIMEOUT_SECONDS = 5.0


class AskError(Exception):
    """Nobody answered as hoped; the message is one line with the way out."""


class AddressError(ValueError):
    """No address that can be asked."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(self._path)


def ask(address: str, page: str) -> bytes:
    """The body of a page of the program that serves its status on ``address``.

    Raises:
        AddressError: the address is none.
        AskError: nobody is there, or it is somebody else.
    """
    connection = _connection(address)
    try:
        connection.request("GET", page)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise AskError(
            f"no answer from {address}: {_reason(error)}; "
            "is koord-runtime-proxy running, and is this its --metrics-address?"
        ) from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise AskError(
            f"{address} answers {page} with {response.status}; "
            "is this the --metrics-address of koord-runtime-proxy?"
        )
    return body


def _connection(address: str) -> http.client.HTTPConnection:
    path = address.removeprefix("unix://")
    if path.startswith("/"):
        return _UnixConnection(path)
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise AddressError(f'address is "{address}"; expected 127.0.0.1:9319 or unix:///PATH')
    host = host.removeprefix("[").removesuffix("]")
    return http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
