"""Authorities for clients to trust while these change. No IO.

Several servers show certificates, and change to new ones some time apart. So an authority is
trusted before the first server shows a certificate of it, and stays so after the last one did.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from koord_serving.tls.core import certificates

_MOST = 8
"""Authorities at once; who changes them more often than that in a day is not followed."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class TrustedAuthorities:
    """Those of now, and each of before for ``overlap`` after it was last among them."""

    def __init__(self, overlap: timedelta = certificates.OVERLAP) -> None:
        self._overlap = overlap
        self._since: dict[bytes, datetime] = {}
        self._last: dict[bytes, datetime] = {}

    def see(self, bundle: bytes, now: datetime) -> None:
        """These authorities (PEM) are in force; the first ones have long been, for all we know."""
        since = now if self._last else _LONG_AGO
        for authority in _authorities(bundle):
            self._since.setdefault(authority, since)
            self._last.pop(authority, None)
            self._last[authority] = now
        kept = [authority for authority, at in self._last.items() if now < at + self._overlap][
            -_MOST:
        ]
        self._last = {authority: self._last[authority] for authority in kept}
        self._since = {authority: self._since[authority] for authority in kept}

    def bundle(self, current: bytes, now: datetime) -> bytes:
        """``current`` as it is, followed by those of before that are still trusted."""
        listed = _authorities(current)
        before = [
            authority
            for authority in self._last
            if authority not in listed and _is_valid(authority, now)
        ]
        return b"\n".join((current.rstrip(), *before, b"")) if before else current

    def has_announced(self, certificate: bytes, before: datetime) -> bool:
        """True if a server's certificate is of an authority that was in force ``before``."""
        known = [authority for authority, at in self._since.items() if at <= before]
        return certificates.is_issued_by(certificate, known)


def _authorities(bundle: bytes) -> list[bytes]:
    return _PEM.findall(bundle)


def _is_valid(authority: bytes, now: datetime) -> bool:
    end = certificates.expiry(authority)
    return end is not None and now < end
