"""HTTP over a unix socket, for the standard library's client."""

from __future__ import annotations

import http.client
import os
import socket


class UnixConnection(http.client.HTTPConnection):
    """A connection to who listens on a path; ``timeout`` is seconds of silence."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = os.fspath(path)

    def connect(self) -> None:
        """Connect.

        Raises:
            OSError: nobody listens there.
        """
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise
