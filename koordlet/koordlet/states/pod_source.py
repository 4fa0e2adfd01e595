"""Where the list of pods comes from: the kubelet, or a file that holds such a list."""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST = 64 * 1024 * 1024  # bytes; a list longer than this is none


class Fetched:
    """The list from a path or URL; ``name`` is that."""

    def __init__(self, name: str, timeout: float = 3.0) -> None:
        self.name = name
        self._timeout = timeout

    async def pods(self) -> bytes:
        """The list's JSON.

        Raises:
            OSError: it cannot be had; the message says from where and why.
        """
        return await asyncio.to_thread(fetch, self.name, self._timeout)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: the answer is then an error."""


def fetch(source: str, timeout: float) -> bytes:
    """The list's JSON, from a path or an http(s) URL; blocks for at most ``timeout`` seconds.

    Over https the kubelet's certificate is verified, with the service account's CA
    where there is one, and the service account's token is sent.

    Raises:
        OSError: it cannot be had; the message says from where and why.
    """
    if not source.startswith(("http://", "https://")):
        try:
            return Path(source).read_bytes()
        except OSError as error:
            raise OSError(f"{source}: {error.strerror}") from None
    request = urllib.request.Request(source)  # noqa: S310 - http and https only, see above
    # The kubelet is on this node: no proxy, and no redirect takes the token elsewhere.
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler({}),
        _NoRedirects(),
    ]
    if source.startswith("https://"):
        authority, token = _ACCOUNT / "ca.crt", _ACCOUNT / "token"
        context = ssl.create_default_context(cafile=authority if authority.exists() else None)
        handlers.append(urllib.request.HTTPSHandler(context=context))
        if token.exists():
            request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
    try:
        opener = urllib.request.build_opener(*handlers)
        with opener.open(request, timeout=timeout) as response:
            body: bytes = response.read(_MOST)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = getattr(error, "reason", "") or str(error) or type(error).__name__
        raise OSError(f"{source}: {reason}") from None
    return body
