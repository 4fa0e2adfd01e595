"""Status pages over HTTP on a loopback port or a unix socket, or on the network if so wanted.

A page is a function of what stands behind the "?", and of the kinds of answer that the
client takes. It is called for each request, in a thread of its own, so it must only read.
On a node who asks, asks locally: nothing here is secret, but nothing here is meant for the
network either, so other addresses are refused. What runs as a pod of its own is asked by
kubelets and by Prometheus: it serves them on the pod's address.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from koord_model import duration

from koord_service.addresses import host_port
from koord_service.sockets import listen_unix

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SILENCE_SECONDS = 10.0
_CONNECTIONS = 32
_PAUSE_SECONDS = 0.1
_PARAMETERS = 64
_PORT = re.compile(r":[0-9]*$")


@dataclass(frozen=True, slots=True)
class Page:
    """One answer; ``headers`` are those beside its type and length."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class QueryError(ValueError):
    """A parameter cannot be; the message, one line, is answered with ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request, each given once. All methods raise QueryError.

    ``accept`` is the request's header of that name.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""

    @classmethod
    def parse(cls, text: str, accept: str = "") -> Query:
        """What stands behind the "?" of a URL."""
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_PARAMETERS)
        except ValueError:
            raise QueryError(f"more than {_PARAMETERS} parameters") from None
        values = dict(pairs)
        if len(values) < len(pairs):
            twice = next(name for name in values if [one for one, _ in pairs].count(name) > 1)
            raise QueryError(f'parameter "{twice}" is given twice')
        return cls(values, accept)

    def accepts(self, content_type: str) -> bool:
        """Whether the client asks for this very type; "*/*" asks for none."""
        types = (one.partition(";")[0].strip() for one in self.accept.lower().split(","))
        return content_type in types

    def choice(self, name: str, choices: Collection[str], default: str = "") -> str:
        """One of a few words; without a ``default`` it must be given."""
        value = self.values.get(name, default)
        if value not in choices:
            given = (
                f'parameter "{name}" is "{value}"' if value else f'parameter "{name}" is missing'
            )
            raise QueryError(f"{given}; expected one of {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number."""
        if name not in self.values:
            return default
        text = self.values[name]
        # As long as the greatest: int() takes its time over thousands of digits.
        plain = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not plain or not least <= int(text) <= most:
            raise QueryError(f'parameter "{name}" is "{text}"; expected {least} to {most}')
        return int(text)

    def seconds(self, name: str, default: float, least: float, most: float) -> float:
        """A time such as "90", "90s", "5m" or "1h"."""
        if name not in self.values:
            return default
        text = self.values[name]
        seconds = _seconds(text)
        if not least <= seconds <= most:
            raise QueryError(
                f'parameter "{name}" is "{text}"; '
                f"expected {least:g} to {most:g} seconds, written like 90s, 5m or 1h"
            )
        return seconds


def _seconds(text: str) -> float:
    """A plain number is of seconds too; less than none for what is no time."""
    try:
        return duration.seconds_or_number(text)
    except ValueError:
        return -1.0


MakePage = Callable[[Query], Page]
"""What is served under a path. Raises QueryError where a parameter cannot be."""


def json_page(value: object, status: int = 200) -> Page:
    """``value`` as JSON; NaN and infinities raise ValueError, since JSON has none."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return Page(f"{text}\n".encode(), "application/json", status)


def metrics_page(registry: CollectorRegistry) -> Page:
    """The metrics in Prometheus' text format."""
    # Here, so that programs without metrics need not have the client installed.
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    return Page(generate_latest(registry), CONTENT_TYPE_LATEST)


class StatusServer:
    """Serves GET and HEAD of ``pages``, by path.

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
    ) -> None:
        self._address = address
        self._mode = mode
        self._network = network
        self._target = _target(address, network)
        self._pages = pages
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
            Path(self._target).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # Closing alone would leave the thread inside accept().
            listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with _Connections(self._pages, self._network) as connections:
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
    """A thread a connection, but not more than a few: more are hung up on."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, pages: Mapping[str, MakePage], network: bool) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.pages = pages
        self.network = network
        self._free = threading.BoundedSemaphore(_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # The system has no thread for us.
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: a client that hangs up halfway is its own business."""


class _Handler(BaseHTTPRequestHandler):
    server: _Connections
    timeout = _SILENCE_SECONDS
    server_version = "pykoord"
    sys_version = ""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not self._asked_locally():
            self._answer(_line(403, "asked under a name; ask 127.0.0.1, [::1] or localhost"))
            return
        pages = self.server.pages
        if path not in pages:
            known = "".join(f"  {name}\n" for name in sorted(pages))
            self._answer(Page(f"404 no such page; there are:\n{known}".encode(), status=404))
            return
        try:
            accept = ", ".join(self.headers.get_all("Accept", []))
            page = pages[path](Query.parse(query, accept))
        except QueryError as error:
            page = _line(error.status, f"{path}: {error}")
        except Exception as error:
            page = _line(500, f"{path} failed: {type(error).__name__}: {error}")
        self._answer(page)

    do_HEAD = do_GET  # noqa: N815

    def _asked_locally(self) -> bool:
        """Over TCP a browser may ask for a page of elsewhere whose name now leads here."""
        host = self.headers.get("Host")
        if self.server.network or host is None or not isinstance(self.client_address, tuple):
            return True
        return _is_loopback(host.rpartition(":")[0] if _PORT.search(host) else host)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A line of text in place of the library's HTML."""
        self.close_connection = True
        self._answer(Page(f"{code} {message or explain or ''}\n".encode(), status=code))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: scrapes every few seconds are no events."""

    def _answer(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)


def _line(status: int, message: str) -> Page:
    """One line of text, whatever was in the message."""
    line = " ".join(message.split())
    shown = "".join(letter if letter.isprintable() else "�" for letter in line)
    return Page(f"{status} {shown}\n".encode(errors="replace"), status=status)


def _target(address: str, network: bool) -> str | tuple[str, int]:
    """A unix socket's path, or a host and port, a loopback one unless ``network``."""
    path = address.removeprefix("unix://")
    if path.startswith("/"):
        return path
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f'status address is "{address}"; expected 127.0.0.1:PORT or unix:///PATH')
    if network:
        return host.strip("[]"), int(port)
    if not _is_loopback(host):
        raise ValueError(f'status address is "{address}"; only loopback and unix:// are served')
    return "127.0.0.1" if host == "localhost" else host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine, by number or as "localhost"."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
