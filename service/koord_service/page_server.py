"""The HTTP server of pages: connections, deadlines and TLS; ``page_answers`` decides.

Each connection has a thread: pages are answered however busy an event loop is, and say so.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from koord_service.addresses import is_loopback, peer_host
from koord_service.connection_places import ConnectionPlaces
from koord_service.page_answers import PageAnswers, PageRequest
from koord_service.pages import QueryError, StatusPage

_SILENCE_SECONDS = 10.0
_HANDSHAKE_SECONDS = 5.0
_CONNECTIONS = 32
_OF_ONE_PEER = 8
"""Of those on the network, so that one cannot hold all the connections there are."""

_MOST_BODY = 1 << 10
"""Bytes of an update."""


class PageServer(ThreadingHTTPServer):
    """A thread per connection, up to a limit: another connection ends the oldest."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answers: PageAnswers, tls: Callable[[], ssl.SSLContext] | None) -> None:
        super().__init__(("", 0), PageHandler, bind_and_activate=False)
        self.answers = answers
        self._tls = tls
        self._places = ConnectionPlaces(_CONNECTIONS, _OF_ONE_PEER)

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = peer_host(client_address)
        if not self._places.take(request, peer, bounded=self.answers.is_bounded(peer)):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # The system has no more threads.
            self._places.give_back(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.give_back(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        tls = self._tls
        # In the connection's own thread: a slow client keeps nobody waiting.
        request.settimeout(_HANDSHAKE_SECONDS)
        if tls is None or (is_loopback(peer_host(client_address)) and not _begins_tls(request)):
            super().finish_request(request, client_address)
            return
        with tls().wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: a client that hangs up halfway is normal."""


class PageHandler(BaseHTTPRequestHandler):
    """One connection."""

    server: PageServer
    timeout = _SILENCE_SECONDS
    server_version = "pykoord"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(self.server.answers.get(self._request()))

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        page = self.server.answers.put(self._request(), self._body)
        if page is None:
            self.send_error(501, "Unsupported method ('PUT')")
        else:
            self._answer(page)

    def _request(self) -> PageRequest:
        return PageRequest(
            self.path,
            peer_host(self.client_address),
            self.headers.get("Host"),
            self.headers.get("Authorization", ""),
            ", ".join(self.headers.get_all("Accept", [])),
        )

    def _body(self) -> str:
        """Read the body of the request.

        Raises:
            QueryError: it is too long, of unknown length, or not text.
        """
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 6):
            raise QueryError("Content-Length is missing", 411)
        if int(length) > _MOST_BODY:
            raise QueryError(f"more than {_MOST_BODY} bytes", 413)
        try:
            return self.rfile.read(int(length)).decode()
        except UnicodeDecodeError:
            raise QueryError("the body is not UTF-8") from None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line of text instead of the library's HTML."""
        self.close_connection = True
        self._answer(StatusPage(f"{code} {message or explain or ''}\n".encode(), status=code))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: scrapes come every few seconds."""

    def _answer(self, page: StatusPage) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)


def _begins_tls(connection: socket.socket) -> bool:
    """True if the client starts a TLS handshake; the byte stays to be read."""
    return connection.recv(1, socket.MSG_PEEK) == b"\x16"
