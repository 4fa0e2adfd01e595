"""Asking a status page, on a loopback port or a unix socket."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass

from koord_service.unix_http import UnixConnection

from koordctl.errors import AskError, UsageError

TIMEOUT_SECONDS = 5.0
"""Of silence."""
ANSWER_SECONDS = 60.0
"""For all of an answer: whoever answers need not be the program."""
_PIECE = 1 << 16
_LONGEST_LINE = 1000
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class StatusEndpoint:
    """Program with a status page: its name, its setting for the address, an example of one."""

    name: str
    setting: str
    example: str
    where_absent: str = ""
    """The alternative of a node without the program."""


PROXY = StatusEndpoint(
    "koord-runtime-proxy",
    "--metrics-address",
    "127.0.0.1:9319 or unix:///PATH",
    " Nodes that use NRI need no proxy.",
)
KOORDLET = StatusEndpoint(
    "koordlet",
    "--status-address",
    "127.0.0.1:9316 or unix:///PATH",
    " It answers on its own node.",
)
MANAGER = StatusEndpoint("koord-manager", "--metrics-addr", "127.0.0.1:8080")
SCHEDULER = StatusEndpoint("koord-scheduler", "--port", "127.0.0.1:10251")
DESCHEDULER = StatusEndpoint("koord-descheduler", "--port", "127.0.0.1:10251")


def ask(address: str, page: str, program: StatusEndpoint = PROXY) -> bytes:
    """The body of a page of the program that serves its status on ``address``.

    Raises:
        UsageError: the address is not valid.
        AskError: no answer, another program answers, or it cannot answer this.
    """
    connection = _connection(address, program)
    try:
        # Without this, koordlet's /events are lines of text.
        connection.request("GET", page, headers={"Accept": "application/json"})
        response = connection.getresponse()
        with response:  # its socket is its own where the other side hangs up after it
            body = _body(response)
    except (OSError, http.client.HTTPException) as error:
        raise AskError(
            f"no answer from {address}: {_reason(error)}; "
            f"is {program.name} running, and is this its {program.setting}?{program.where_absent}"
        ) from None
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise AskError(f"{address} answers {page} with more than {_MOST_BYTES} bytes")
    refusal = f"{response.status} {page.partition('?')[0]}: "
    if response.status == http.client.BAD_REQUEST or _line(body).startswith(refusal):
        # One line that says which parameter cannot be, or why there is nothing to say.
        raise AskError(f"{program.name} says: {_line(body)}")
    if response.status != http.client.OK:
        raise AskError(
            f"{address} answers {page} with {response.status}; "
            f"is this the {program.setting} of {program.name}? If so, its log says what it "
            "does not do here"
        )
    return body


def _connection(address: str, program: StatusEndpoint) -> http.client.HTTPConnection:
    path = address.removeprefix("unix://")
    if path.startswith("/"):
        return UnixConnection(path, TIMEOUT_SECONDS)
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise UsageError(f'address is "{address}"; expected {program.example}')
    host = host.removeprefix("[").removesuffix("]")
    return http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)


def _body(response: http.client.HTTPResponse) -> bytes:
    until, body = time.monotonic() + ANSWER_SECONDS, bytearray()
    while len(body) <= _MOST_BYTES and (piece := response.read1(_PIECE)):
        body += piece
        if time.monotonic() > until:
            raise TimeoutError(f"the answer is not complete after {ANSWER_SECONDS:g} s")
    return bytes(body)


def _line(body: bytes) -> str:
    text = body[:_LONGEST_LINE].decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
