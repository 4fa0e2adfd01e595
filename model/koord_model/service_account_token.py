"""Claims of a service account's token, unverified; only the API server can verify them.

So it is good for turning away what cannot be right, and for nothing else.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode

import msgspec

MANAGER_AUDIENCE = "koord-manager.koordinator.sh"
"""Of the tokens that koordlets show to the manager: the API server does not take them."""

_LONGEST = 16 * 1024
"""Letters; the API server's own are about one thousand."""


class Claims(msgspec.Struct, frozen=True):
    """``expires`` is in seconds since the epoch, ``subject`` the name of the account's user."""

    subject: str = msgspec.field(default="", name="sub")
    expires: float = msgspec.field(default=0.0, name="exp")
    audience: str | tuple[str, ...] = msgspec.field(default=(), name="aud")

    @property
    def audiences(self) -> tuple[str, ...]:
        """Audiences of the token."""
        return (self.audience,) if isinstance(self.audience, str) else self.audience


_CLAIMS = msgspec.json.Decoder(Claims)


def claims_of(token: str) -> Claims | None:
    """Decode the claims of a token; ``None`` if it is not a JSON Web Token."""
    parts = token.split(".")
    if len(token) > _LONGEST or len(parts) != 3 or not all(parts):
        return None
    try:
        payload = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return _CLAIMS.decode(payload)
    except (binascii.Error, ValueError, RecursionError):
        return None
