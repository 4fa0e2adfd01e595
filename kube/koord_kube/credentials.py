"""Authentication: a bearer token that is replaced at run time, and the server's certificate."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The service account's token, its cluster's CA and its namespace, in a pod."""

_SECONDS = 60.0


class Credentials(Protocol):
    """Source of the Authorization header; it is never logged."""

    async def header(self, *, anew: bool = False) -> str:
        """The header's value, "" for none; ``anew``: the last one was refused.

        Raises:
            OSError: it cannot be read; one line with the source and the reason.
        """
        ...


class Anonymous:
    """No token: nothing at all, or a client certificate."""

    async def header(self, *, anew: bool = False) -> str:
        return ""


class TokenFile:
    """A file that the kubelet replaces before the token in it expires.

    It is read again after a minute, and at once when the token is refused.
    """

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._header = ""
        self._until = 0.0

    async def header(self, *, anew: bool = False) -> str:
        if anew or not self._header or self._monotonic() >= self._until:
            self._header = self._read()
            self._until = self._monotonic() + _SECONDS
        return self._header

    def _read(self) -> str:
        try:
            token = self._path.read_bytes().strip()
        except OSError as error:
            raise OSError(f"{self._path}: {error.strerror}") from None
        if not token or not all(33 <= byte < 127 for byte in token):
            raise OSError(f"{self._path}: is not a valid token (empty, or more than one word)")
        return f"Bearer {token.decode()}"


def server_context(authority: Path | None = None) -> ssl.SSLContext:
    """Verifies servers, and the names or addresses in their certificates.

    ``authority`` is a file of CA certificates, none: those of the system.

    Raises:
        OSError: one line with the file and what is wrong with it.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError as error:
        raise OSError(f"{authority}: has no CA certificate in PEM ({error.reason})") from None
    except OSError as error:
        raise OSError(f"{authority}: {error.strerror}") from None
    # From Python 3.13 on CAs need extensions that those of older clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
