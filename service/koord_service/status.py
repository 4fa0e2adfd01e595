"""Status pages over HTTP on a loopback port or a unix socket, or on the network if so wanted.

A page is a function of what stands behind the "?", and of the kinds of answer that the
client takes. It is called for each request, in a thread of its own, so it must only read.
On a node who asks, asks locally: nothing here is secret, but nothing here is meant for the
network either, so other addresses are refused. A program that is a pod of its own is scraped
by kubelets and by Prometheus: it serves them on the pod's address.

An update is the answer to PUT. It changes the program, so it is for those on this machine alone,
whatever pages the others get: in a pod, for those who may forward its port or execute in it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from koord_service.addresses import host_port
from koord_service.connection_places import ConnectionPlaces
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log
from koord_service.page_paths import find_page
from koord_service.pages import (
    MakePage,
    Query,
    QueryError,
    StatusPage,
    Update,
    json_page,
    metrics_page,
)
from koord_service.sockets import SocketIdentity, listen_unix, remove_unix, socket_identity

__all__ = [
    "Access",
    "MakePage",
    "Query",
    "QueryError",
    "StatusPage",
    "StatusServer",
    "Update",
    "is_local",
    "json_page",
    "metrics_page",
]

_SILENCE_SECONDS = 10.0
_HANDSHAKE_SECONDS = 5.0
_CONNECTIONS = 32
_OF_ONE_PEER = 8
"""Of those on the network, so that one cannot hold all the connections there are."""

_MOST_BODY = 1 << 10
"""Bytes of an update."""
_PAUSE_SECONDS = 0.1
_PORT = re.compile(r":[0-9]*$")

_LOG = get_log("status")
_LOGGED = LogDeduplicator()


@dataclass(frozen=True, slots=True)
class Access:
    """Who is served what, and how.

    All of it is about those who ask from another machine: over loopback and unix sockets
    everybody gets every page, with or without TLS. ``public`` are the pages for the others,
    ``None``: all. ``tls`` is asked at each connection for what to serve it with. ``admit`` gets
    a request's header "Authorization" and its path, and answers with a refusal, or with None.
    """

    public: Mapping[str, MakePage] | None = None
    tls: Callable[[], ssl.SSLContext] | None = None
    admit: Callable[[str, str], StatusPage | None] | None = None


_EVERYTHING = Access()


class StatusServer:
    """Serves GET and HEAD of ``pages``, by path (``find_page``), and PUT of ``updates``.

    ``address`` is "127.0.0.1:9317", "[::1]:9317" (port 0 picks one), "unix:///path" or
    "/path"; with ``network`` also ":8080" (all addresses) or "0.0.0.0:8080". ``mode`` is that of
    a unix socket, 0666 to let everybody on the node ask. Construction raises ValueError for any
    other; ``start`` raises OSError (SocketInUseError for a unix socket with a live server) when
    it cannot listen.
    """

    def __init__(
        self,
        address: str,
        pages: Mapping[str, MakePage],
        *,
        mode: int = 0o660,
        network: bool = False,
        access: Access = _EVERYTHING,
        updates: Mapping[str, Update] = MappingProxyType({}),
    ) -> None:
        self._address = address
        self._mode = mode
        self._network = network
        self._access = access
        self._target = _target(address, network)
        self._pages = pages
        self._updates = updates
        self._identity: SocketIdentity = (0, 0, 0)
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where it listens; with port 0 the port picked, once started."""
        return self._address

    def start(self) -> None:
        if self._listener is not None:
            return
        if isinstance(self._target, str):
            listener = listen_unix(self._target, mode=self._mode)
            self._identity = socket_identity(self._target)
        else:
            listener = _listen_tcp(*self._target)
            host, port = listener.getsockname()[:2]
            self._address = host_port(host, port)
        listener.setblocking(True)
        self._listener = listener
        self._thread = threading.Thread(
            target=self._accept, args=(listener,), name="status", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; requests under way are answered."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        if isinstance(self._target, str):
            remove_unix(self._target, self._identity)
        with contextlib.suppress(OSError):
            # Closing alone would leave the thread inside accept().
            listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        listener.close()

    def _accept(self, listener: socket.socket) -> None:
        served = self._pages, self._updates, self._network, self._access
        with _Connections(*served) as connections:
            while True:
                try:
                    connection, peer = listener.accept()
                except OSError:
                    if self._listener is not listener:
                        return
                    # Out of descriptors: asking again at once would burn a CPU.
                    time.sleep(_PAUSE_SECONDS)
                    continue
                connections.process_request(connection, peer)


class _Connections(ThreadingHTTPServer):
    """A thread per connection, up to a limit: another connection ends the oldest."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        pages: Mapping[str, MakePage],
        updates: Mapping[str, Update],
        network: bool,
        access: Access,
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.pages = pages
        self.updates = updates
        self.network = network
        self.access = access
        self._places = ConnectionPlaces(_CONNECTIONS, _OF_ONE_PEER)

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = _peer(client_address)
        bounded = self.network and not _is_loopback(peer)
        if not self._places.take(request, peer, bounded=bounded):
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
        tls = self.access.tls
        # In the connection's own thread: a slow client keeps nobody waiting.
        request.settimeout(_HANDSHAKE_SECONDS)
        if tls is None or (_is_loopback(_peer(client_address)) and not _begins_tls(request)):
            super().finish_request(request, client_address)
            return
        with tls().wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: a client that hangs up halfway is normal."""


class _Handler(BaseHTTPRequestHandler):
    server: _Connections
    timeout = _SILENCE_SECONDS
    server_version = "pykoord"
    sys_version = ""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        access = self.server.access
        elsewhere = self.server.network and not _is_loopback(_peer(self.client_address))
        public = access.public if elsewhere else None
        if public is None and not self._asked_locally():
            self._answer(_line(403, "asked under a name; ask 127.0.0.1, [::1] or localhost"))
            return
        if elsewhere and access.admit is not None:
            refusal = access.admit(self.headers.get("Authorization", ""), path)
            if refusal is not None:
                self._answer(refusal)
                return
        pages = self.server.pages if public is None else public
        try:
            make, parts = find_page(pages, path)
        except KeyError:
            known = "".join(f"  {name}\n" for name in sorted(pages))
            self._answer(StatusPage(f"404 no such page; there are:\n{known}".encode(), status=404))
            return
        accept = ", ".join(self.headers.get_all("Accept", []))

        def page() -> StatusPage:
            asked = Query.parse(query, accept)
            return make(replace(asked, values={**asked.values, **parts}))

        self._answer(_made(path, page))

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        path = self.path.partition("?")[0]
        update = self.server.updates.get(path)
        if update is None:
            self.send_error(501, "Unsupported method ('PUT')")
        elif not (_is_loopback(_peer(self.client_address)) and self._names_loopback()):
            self._answer(_line(403, "changed from this machine alone; ask 127.0.0.1 or localhost"))
        else:
            self._answer(_made(path, lambda: update(self._body())))

    def _body(self) -> str:
        """What stands behind the headers.

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

    def _asked_locally(self) -> bool:
        """Over TCP a browser may ask for a page of elsewhere whose name now leads here."""
        everybody = self.server.network and self.server.access.public is None
        if everybody or not isinstance(self.client_address, tuple):
            return True
        return self._names_loopback()

    def _names_loopback(self) -> bool:
        host = self.headers.get("Host")
        if host is None:
            return True
        return _is_loopback(host.rpartition(":")[0] if _PORT.search(host) else host)

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


def is_local(address: str) -> bool:
    """Whether only this machine can reach an address; raises ValueError as ``StatusServer``."""
    target = _target(address, network=True)
    return isinstance(target, str) or _is_loopback(target[0])


def _made(path: str, make: Callable[[], StatusPage]) -> StatusPage:
    """The page, or why there is none."""
    try:
        return make()
    except QueryError as error:
        return _line(error.status, f"{path}: {error}")
    except TimeoutError as error:  # the program is starting, stopping or busy: not a defect
        return _line(500, f"{path}: TimeoutError: {error}")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        where = "".join(traceback.format_exception(error))
        if _LOGGED.is_new(path, where):  # a browser asks every few seconds
            _LOG.error("page failed", page=path, error=reason, traceback=where)
        return _line(500, f"{path}: {reason}")


def _line(status: int, message: str) -> StatusPage:
    """One line of text, whatever was in the message."""
    line = " ".join(message.split())
    shown = "".join(letter if letter.isprintable() else "�" for letter in line)
    return StatusPage(f"{status} {shown}\n".encode(errors="replace"), status=status)


def _target(address: str, network: bool) -> str | tuple[str, int]:
    """A unix socket's path, or a host and port, a loopback one unless ``network``."""
    path = address.removeprefix("unix://")
    if path.startswith("/"):
        return path
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f'status address is "{address}"; expected 127.0.0.1:PORT or unix:///PATH')
    if network:
        return host.strip("[]"), int(port)
    if not _is_loopback(host):
        raise ValueError(f'status address is "{address}"; only loopback and unix:// are served')
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)


def _begins_tls(connection: socket.socket) -> bool:
    """Whether the client starts a TLS handshake; the byte stays to be read."""
    return connection.recv(1, socket.MSG_PEEK) == b"\x16"


def _peer(client_address: Any) -> str:
    """The address of the other end; "" over a unix socket."""
    return client_address[0] if isinstance(client_address, tuple) else ""


def _is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine, by number or as "localhost"."""
    try:
        number = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    # A socket for both families has IPv4 peers as ::ffff:127.0.0.1.
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback


def _listen_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not host:
            return _listen_everywhere(port)
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen: {error.strerror}", f"{host}:{port}") from None


def _listen_everywhere(port: int) -> socket.socket:
    """On all addresses, those of IPv6 too where the machine has such."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True
            )
    return socket.create_server(("", port), backlog=128)
