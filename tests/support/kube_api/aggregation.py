"""Aggregation: the API server passes requests for a group on to the service that serves it.

The request goes on over TLS, without the client's own credentials and with who the client is
in ``X-Remote-`` headers; the API server shows its own certificate. Answers, also of watches, come
back piece by piece.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from koord_kube.protocol.api import Object
from multidict import CIMultiDict

from tests.support.kube_api.access import Identity
from tests.support.kube_api.admission import (
    FailedCallError,
    Services,
    Trust,
    bundle_causes,
    service_address,
)
from tests.support.kube_api.kinds import Causes, Key, Refused

_NOT_PASSED_ON = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "authorization",
})  # fmt: skip
_CHECK_SECONDS = 30.0  # the real one gives a service 5, on an idle machine


def check(_: Key, new: Object, __: Object | None) -> Causes:
    """What is wrong with an APIService."""
    spec = new.get("spec") or {}
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    name = f"{spec.get('version', '')}.{spec.get('group', '')}".rstrip(".")
    good = {
        "metadata.name": new["metadata"].get("name") == name,
        "spec.groupPriorityMinimum": spec.get("groupPriorityMinimum", 0) > 0,
        "spec.versionPriority": spec.get("versionPriority", 0) > 0,
        "spec.insecureSkipTLSVerify": not (bundle and spec.get("insecureSkipTLSVerify")),
        "spec.caBundle": service is not None or not bundle,
        "spec.service": service is None or bool(service.get("name") and service.get("namespace")),
    }
    wrong = [(field, "Invalid value") for field, is_good in good.items() if not is_good]
    return wrong + bundle_causes("spec.caBundle", bundle)


def default(given: Object) -> None:
    """What the server adds to an APIService."""
    service = (given.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


@dataclass
class Aggregation:
    """``services`` says where services listen."""

    services: Services
    trust: Trust
    session: aiohttp.ClientSession | None = None

    async def available(self, given: Object, time: str) -> Object:
        """The APIService's condition: whether its service answers to discovery."""
        spec, why = given["spec"], ""
        if spec.get("service") is not None:
            why = await self._failure(spec)
        return {
            "type": "Available",
            "status": "False" if why else "True",
            "reason": "FailedDiscoveryCheck" if why else "Passed",
            "message": why or "all checks passed",
            "lastTransitionTime": time,
        }

    async def _failure(self, spec: Object) -> str:
        assert self.session is not None
        who = {"X-Remote-User": "system:kube-aggregator", "X-Remote-Group": "system:masters"}
        path = f"/apis/{spec['group']}/{spec['version']}"
        try:
            url, name = service_address(self.services, spec["service"], path)
            async with self.session.get(
                url,
                headers=who,
                ssl=self._context(spec),
                server_hostname=name,
                timeout=aiohttp.ClientTimeout(total=_CHECK_SECONDS),
            ) as got:
                return "" if got.ok else f"bad status from {url}: {got.status}"
        except (aiohttp.ClientError, FailedCallError, OSError) as error:
            return f"failing or missing response from {path}: {error!r}"

    async def proxy(
        self, request: web.Request, body: bytes, spec: Object, who: Identity
    ) -> web.StreamResponse:
        """The answer of the service, as it comes; ``Refused`` (503) where there is none."""
        assert self.session is not None
        response: web.StreamResponse | None = None
        try:
            url, name = service_address(self.services, spec["service"], request.path_qs)
            async with self.session.request(
                request.method,
                url,
                headers=_headers(request, who),
                data=body or None,
                ssl=self._context(spec),
                server_hostname=name,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CHECK_SECONDS),
                allow_redirects=False,
            ) as got:
                response = web.StreamResponse(status=got.status, headers=_passed_on(got.headers))
                await response.prepare(request)
                async for piece in got.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, FailedCallError, OSError) as error:
            if response is None:
                message = f"error trying to reach service: {error}"
                raise Refused(503, "ServiceUnavailable", message) from None
            if request.transport is not None:  # The client sees that the answer is cut.
                request.transport.close()
            return response

    def _context(self, spec: Object) -> ssl.SSLContext:
        return self.trust.context(spec.get("caBundle") or "")


def service_of(services: list[Object], path: str) -> Object | None:
    """The spec of the APIService that a path belongs to, where it is not the server's own."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "apis":
        return None
    for one in services:
        spec = one["spec"]
        if spec.get("service") is not None and [spec["group"], spec["version"]] == parts[2:4]:
            return dict(spec)
    return None


def front_proxy_config_map(authority: str, client_authority: str, name: str) -> Object:
    """What an extension server learns from ``kube-system/extension-apiserver-authentication``."""
    return {
        "metadata": {"name": "extension-apiserver-authentication"},
        "data": {
            "client-ca-file": client_authority,
            "requestheader-allowed-names": f'["{name}"]',
            "requestheader-client-ca-file": authority,
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
    }


def _headers(request: web.Request, who: Identity) -> CIMultiDict[str]:
    """Without what the client says of itself."""
    found = _passed_on(request.headers)
    for name in [one for one in found if one.lower().startswith("x-remote-")]:
        found.popall(name, None)
    found.add("X-Remote-User", who.user)
    for group in who.groups:
        found.add("X-Remote-Group", group)
    for name, values in who.extra.items():
        for value in values:
            found.add(f"X-Remote-Extra-{name.replace('/', '%2F')}", value)
    return found


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    pairs = [(name, one) for name, one in headers.items() if name.lower() not in _NOT_PASSED_ON]
    return CIMultiDict(pairs)
