"""Sources of the list of pods: the kubelet, which is asked, or a file."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from koord_kube.credentials import ACCOUNT, Anonymous, Credentials, TokenFile, server_context
from koord_service.http_bodies import read_body

if TYPE_CHECKING:
    import aiohttp

MOST = 64 * 1024 * 1024
"""Bytes; an answer longer than this is none."""

_IDLE = 120.0  # seconds that a connection is kept; more than between two syncs
_MOST_REASON = 1024
_SUBRESOURCES = re.compile(r"subresource(?:\(s\))?=\[?([a-z ]+)")
"""In a kubelet's refusal: all that it looked for, since 1.33 the finer right before the older."""

_OLD_RIGHT = "proxy"
_WRONG_NAME = (62, 64)  # OpenSSL: the certificate is for another host, for another address


class KubeletClient:
    """The kubelet whose list of pods is at the URL ``name``, over a connection that is kept.

    To be closed. Over https its certificate is verified by ``ca_file`` ("": that of the
    service account) and ``credentials`` are sent, the account's token unless others are
    given. No proxy is asked, no redirect followed.
    """

    def __init__(
        self,
        name: str,
        *,
        ca_file: str = "",
        credentials: Credentials | None = None,
        account: Path = ACCOUNT,
        timeout: float = 3.0,
        most: int = MOST,
    ) -> None:
        self.name = name
        parts = urlsplit(name)
        self._configz = f"{parts.scheme}://{parts.netloc}/configz"
        self._secure = parts.scheme == "https"
        self._ca_file = ca_file
        self._account = account
        self._credentials: Credentials = Anonymous()
        if self._secure and credentials is not None:
            self._credentials = credentials
        elif self._secure and (account / "token").exists():
            self._credentials = TokenFile(account / "token")
        self._timeout = timeout
        self._most = most
        self._opened: aiohttp.ClientSession | None = None

    async def pods(self) -> bytes:
        """The list's JSON.

        Raises:
            OSError: it cannot be had; one line that says from where, why, and the way out.
        """
        return await self._get(self.name)

    async def configz(self) -> bytes:
        """The kubelet's configuration, in JSON; raises like ``pods``."""
        return await self._get(self._configz)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def _get(self, url: str) -> bytes:
        # Imported late: 8 MB, which nobody needs who reads a file.
        import aiohttp
        from koord_kube.failures import reason_of

        try:
            async with self._answer(url) as response:
                if response.status != 200:
                    said = await self._reason(response)
                    raise OSError(f"{url}: {_refusal(response.status, response.reason, said)}")
                return await read_body(response.content.iter_any(), self._most)
        except aiohttp.ClientConnectorCertificateError as error:
            # Should the file with the CA be another one by now, it is read again.
            await self.close()
            way_out = _way_out(error.certificate_error)
            raise OSError(f"{url}: {reason_of(error)}; {way_out}") from None
        except TimeoutError:
            raise OSError(f"{url}: no answer in {self._timeout:g} s") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(f"{url}: {reason_of(error)}") from None

    @asynccontextmanager
    async def _answer(self, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """The kubelet's answer; one retry with a new token if it refuses the first."""
        async with self._request(url, await self._credentials.header()) as response:
            if response.status != 401:
                yield response
                return
        async with self._request(url, await self._credentials.header(anew=True)) as response:
            yield response

    def _request(self, url: str, header: str) -> Any:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if header:
            headers["Authorization"] = header
        return self._session().get(url, headers=headers, allow_redirects=False)

    async def _reason(self, response: aiohttp.ClientResponse) -> str:
        """Read the reason in a refusal; the beginning is enough."""
        return (await response.content.read(_MOST_REASON)).decode(errors="replace")

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._opened is None:
            context = server_context(self._authority()) if self._secure else True
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=2, keepalive_timeout=_IDLE),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout),
            )
        return self._opened

    def _authority(self) -> Path | None:
        if self._ca_file:
            return Path(self._ca_file)
        ours = self._account / "ca.crt"
        return ours if ours.exists() else None  # then the system's


class PodFile:
    """A file at the path ``name`` that holds such a list, where there is no kubelet."""

    def __init__(self, name: str, *, most: int = MOST) -> None:
        self.name = name
        self._most = most

    async def pods(self) -> bytes:
        """The list's JSON; raises like the kubelet's."""
        return await asyncio.to_thread(self._read)

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self) -> bytes:
        try:
            with Path(self.name).open("rb") as file:
                body = file.read(self._most + 1)
        except OSError as error:
            raise OSError(f"{self.name}: {error.strerror}") from None
        if len(body) > self._most:
            raise OSError(f"{self.name}: longer than {self._most} bytes")
        return body


def open_pod_source(
    name: str, *, ca_file: str = "", account: Path = ACCOUNT, timeout: float = 3.0
) -> KubeletClient | PodFile:
    """Open the source that a path or an http(s) URL names."""
    if name.startswith(("http://", "https://")):
        return KubeletClient(name, ca_file=ca_file, account=account, timeout=timeout)
    return PodFile(name)


def _refusal(status: int, reason: str | None, body: str) -> str:
    said = f"{status} {reason or ''}".rstrip()
    if status == 401:
        return f"{said}; the token is not accepted"
    if status == 403:
        return f"{said}; {_missing_right(body)}"
    return said


def _missing_right(body: str) -> str:
    """Describe the right that a kubelet looked for, as far as it says so."""
    found = _SUBRESOURCES.search(body)
    wanted = found[1].split() if found else []
    if len(wanted) > 1:
        return f"the account needs to get nodes/{wanted[0]} (deploy/base/rbac/koordlet.yaml)"
    if wanted == [_OLD_RIGHT]:
        return (
            "the account needs to get nodes/proxy: this kubelet is older than 1.33, or its gate "
            "KubeletFineGrainedAuthz is off (deploy/components/nodes-proxy)"
        )
    return "the account needs to get nodes/pods and nodes/configz, or nodes/proxy before 1.33"


def _way_out(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _WRONG_NAME:
        return "ask it at a name it has (--kubelet-preferred-address-type)"
    return "give who signed it (--kubelet-ca-file), or use the read-only port over http"
