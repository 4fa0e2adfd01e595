"""A server's certificate in files that something else renews."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path


class CertificateFiles:
    """A TLS context from a certificate and its key, both PEM, reloaded when either changes.

    If changed files cannot be used, the last good certificate stays in use and ``on_warning`` is
    called once. Construction raises ValueError if the first files cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, on_warning: Callable[[str], None]) -> None:
        self._certificate = certificate
        self._key = key
        self._on_warning = on_warning
        self._lock = threading.Lock()
        self._seen = self._stat()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        with self._lock:
            try:
                seen = self._stat()
                if seen != self._seen:
                    # First, so that a broken pair is reported once.
                    self._seen = seen
                    self._context = self._load()
            except ValueError as error:
                self._on_warning(str(error))
            return self._context

    def _stat(self) -> object:
        """A value that changes when a file is written or its symlink changes."""
        found: list[tuple[int, ...]] = []
        for path in (self._certificate, self._key):
            try:
                stat = path.stat()
            except OSError:
                found.append(())  # loading says why
                continue
            found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return found

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except ssl.SSLError as error:
            pair = f"{self._certificate} and {self._key}"
            raise ValueError(f"{pair}: not a certificate with its key ({error.reason})") from None
        except OSError as error:
            pair = f"{self._certificate}, {self._key}"
            raise ValueError(f"{pair}: {error.strerror or error}") from None
        return context


def _no_password() -> str:
    """OpenSSL would ask on the terminal."""
    raise OSError("the key is encrypted; give one without a password")
