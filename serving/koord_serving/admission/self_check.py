"""Asks our own server for its health as an API server would: over TLS, by the bundle."""

from __future__ import annotations

import ssl

import aiohttp
from koord_kube.failures import reason_of
from koord_service.addresses import host_port

from koord_serving.admission.server import HEALTH_PATH

_SECONDS = 3.0


async def self_check(host: str, port: int, bundle: bytes, name: str) -> str:
    """Return why a client would get no answer there, in a line; "" if it gets one.

    ``name`` must be in the certificate. Without a ``bundle`` any certificate is accepted.
    """
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.get(
                f"https://{host_port(host, port)}{HEALTH_PATH}",
                ssl=_context(bundle),
                server_hostname=name,
            ) as response,
        ):
            said = (await response.text()).strip()
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return reason_of(error)
    return "" if response.status == 200 else said


def _context(bundle: bytes) -> ssl.SSLContext:
    if bundle:
        return ssl.create_default_context(cadata=bundle.decode("ascii"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
