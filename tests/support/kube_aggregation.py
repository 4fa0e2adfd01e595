"""Aggregation: what an APIService with a service serves is asked for there, as by kube-aggregator.

The request goes on over TLS, without the client's own credentials and with who the client is
in ``X-Remote-`` headers; that it is the API server who says so shows its certificate. Answers,
and watches too, come back piece by piece.

Not here: the documents of discovery and OpenAPI, which the real one fetches from the service as
``system:kube-aggregator`` of no group, and shows as its own.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from koord_kube.protocol.api import Object
from multidict import CIMultiDict

from tests.support.kube_access import Identity
from tests.support.kube_outgoing import (
    Services,
    Trust,
    UnreachableError,
    check_bundle,
    service_address,
)
from tests.support.kube_refusal import Refused
from tests.support.kube_selecting import Key

_HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "authorization",
})  # fmt: skip
_CHECKED_WITHIN = 30.0  # seconds; the real one gives it 5, of a machine that has time


def check(_: Key, new: Object, __: Object | None = None) -> list[tuple[str, str]]:
    """What is wrong with an APIService."""
    spec = new.get("spec") or {}
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}".rstrip(".")
    found = []
    if new["metadata"].get("name") != wanted:
        found.append(
            ("metadata.name", f"Invalid value: must be `spec.version+spec.group`: {wanted}")
        )
    for field_ in ("groupPriorityMinimum", "versionPriority"):
        if not spec.get(field_, 0) > 0:
            found.append((f"spec.{field_}", "Invalid value: must be positive and less than 20000"))
    bundle, insecure = spec.get("caBundle") or "", spec.get("insecureSkipTLSVerify")
    if bundle and insecure:
        why = "Invalid value: may not be true if caBundle is present"
        found.append(("spec.insecureSkipTLSVerify", why))
    if spec.get("service") is None and (bundle or insecure):
        found.append(("spec.caBundle", "Invalid value: local APIServices may not have a caBundle"))
    for field_ in ("name", "namespace"):
        if spec.get("service") is not None and not spec["service"].get(field_):
            found.append((f"spec.service.{field_}", "Required value"))
    if bundle and (why := check_bundle(bundle)):
        found.append(("spec.caBundle", f"Invalid value: {why}"))
    return found


def default(given: Object) -> None:
    """What is not said is, as the server keeps it."""
    service = (given.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


@dataclass
class Aggregation:
    """``services`` says where services are; ``session`` is what they are asked with."""

    services: Services
    trust: Trust = field(default_factory=Trust)
    session: aiohttp.ClientSession | None = None

    async def available(self, given: Object, time: str) -> Object:
        """The APIService's condition: whether its service answers to discovery."""
        spec = given["spec"]
        status, reason, message = "True", "Passed", "all checks passed"
        if spec.get("service") is None:
            reason, message = "Local", "Local APIServices are always available"
        else:
            why = await self._trouble(spec)
            if why:
                status, reason, message = "False", "FailedDiscoveryCheck", why
        return {
            "type": "Available",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": time,
        }

    async def _trouble(self, spec: Object) -> str:
        assert self.session is not None
        path = f"/apis/{spec['group']}/{spec['version']}"
        who = CIMultiDict({"X-Remote-User": "system:kube-aggregator"})
        who.add("X-Remote-Group", "system:masters")
        limit = aiohttp.ClientTimeout(total=_CHECKED_WITHIN)
        try:
            address = service_address(self.services, spec["service"], path)
            async with self.session.get(
                address.url,
                headers=who,
                ssl=self._context(spec),
                server_hostname=address.name,
                timeout=limit,
            ) as got:
                bad = f"bad status from {address.url}: {got.status}"
                return "" if 200 <= got.status < 300 else bad
        except (TimeoutError, aiohttp.ClientError, UnreachableError, OSError) as error:
            return f"failing or missing response from {path}: {error!r}"

    async def proxy(
        self, request: web.Request, body: bytes, spec: Object, who: Identity
    ) -> web.StreamResponse:
        """The answer of the service, as it comes.

        Raises:
            Refused: 503, there is none.
        """
        assert self.session is not None
        response: web.StreamResponse | None = None
        try:
            address = service_address(self.services, spec["service"], request.path_qs)
            async with self.session.request(
                request.method,
                address.url,
                headers=_headers(request, who),
                data=body or None,
                ssl=self._context(spec),
                server_hostname=address.name,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CHECKED_WITHIN),
                allow_redirects=False,
            ) as got:
                response = web.StreamResponse(status=got.status, headers=_passed_on(got.headers))
                await response.prepare(request)
                async for piece in got.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, UnreachableError, OSError, TimeoutError) as error:
            if response is None:
                message = f"error trying to reach service: {error}"
                raise Refused(503, "ServiceUnavailable", message) from None
            if request.transport is not None:  # The client sees that it is not whole.
                request.transport.close()
            return response

    def _context(self, spec: Object) -> ssl.SSLContext:
        bundle = spec.get("caBundle") or ""
        unverified = bool(spec.get("insecureSkipTLSVerify"))
        return self.trust.context(bundle, unverified=unverified)


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
    """What a client says of itself in these headers is not passed on."""
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in request.headers.items():
        if name.lower() not in _HOP_BY_HOP and not name.lower().startswith("x-remote-"):
            found.add(name, value)
    found.add("X-Remote-User", who.user)
    for group in who.groups:
        found.add("X-Remote-Group", group)
    for name, values in who.extra.items():
        for value in values:
            found.add(f"X-Remote-Extra-{name.replace('/', '%2F')}", value)
    return found


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        if name.lower() not in _HOP_BY_HOP:
            found.add(name, value)
    return found
