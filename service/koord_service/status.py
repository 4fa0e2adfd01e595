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
import socket
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType

from koord_service.addresses import host_port, is_local, listen_tcp, parse_target
from koord_service.page_answers import EVERYTHING, Access, PageAnswers
from koord_service.page_server import PageServer
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

_PAUSE_SECONDS = 0.1


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
        access: Access = EVERYTHING,
        updates: Mapping[str, Update] = MappingProxyType({}),
    ) -> None:
        self._address = address
        self._mode = mode
        self._target = parse_target(address, network)
        self._answers = PageAnswers(pages, updates, network, access)
        self._tls = access.tls
        self._identity: SocketIdentity = (0, 0, 0)
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Address of the listener; with port 0 the port picked, once started."""
        return self._address

    def start(self) -> None:
        if self._listener is not None:
            return
        if isinstance(self._target, str):
            listener = listen_unix(self._target, mode=self._mode)
            self._identity = socket_identity(self._target)
        else:
            listener = listen_tcp(*self._target)
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
        with PageServer(self._answers, self._tls) as connections:
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
