"""How the API server asks others: where a service is, and whose certificate it must show."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.certificates import Certificates

Services = dict[tuple[str, str, int], tuple[str, int]]
"""Namespace, name and port of a service, and the host and port where it listens in truth."""


class Address(NamedTuple):
    """A URL to ask, and the name that the certificate there has to be for, "" for its host."""

    url: str
    name: str


class UnreachableError(Exception):
    """There is no such service."""


def service_address(services: Services, said: Mapping[str, Any], path: str) -> Address:
    """Where a service listens, as an object refers to it.

    Raises:
        UnreachableError: no test has said where it is.
    """
    namespace, name, port = said["namespace"], said["name"], said.get("port", 443)
    found = services.get((namespace, name, port))
    if found is None:
        raise UnreachableError(f'service "{name}" not found')
    return Address(f"https://{found[0]}:{found[1]}{path}", f"{name}.{namespace}.svc")


class Trust:
    """TLS contexts for the authorities that objects name; ``client`` is who the server is."""

    def __init__(self, client: Certificates | None = None) -> None:
        self._client = client
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}

    def context(self, bundle: str, *, unverified: bool = False) -> ssl.SSLContext:
        """``bundle`` is PEM in base64, "" for the system's authorities.

        Raises:
            ValueError: it is no bundle.
        """
        if (bundle, unverified) not in self._contexts:
            self._contexts[bundle, unverified] = self._made(bundle, unverified)
        return self._contexts[bundle, unverified]

    def _made(self, bundle: str, unverified: bool) -> ssl.SSLContext:
        try:
            text = base64.b64decode(bundle, validate=True).decode() if bundle else None
            made = ssl.create_default_context(cadata=text)
        except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
            raise ValueError(f"unable to load root certificates: {error}") from None
        if unverified:
            made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        if self._client is not None:
            made.load_cert_chain(self._client.certificate, self._client.key)
        return made


def check_bundle(bundle: str) -> str:
    """What is wrong with a bundle of certificates, "" where nothing is."""
    try:
        Trust().context(bundle)
    except ValueError as error:
        return str(error)
    return ""
