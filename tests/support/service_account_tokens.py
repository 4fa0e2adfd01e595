"""Service accounts' tokens as they look; nobody has signed them, so only a double takes them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from koord_model.service_account_token import MANAGER_AUDIENCE

KOORDLET = "system:serviceaccount:koordinator-system:koordlet"
FAR = 4_000_000_000
"""A time that is not over."""


def unsigned_token(
    name: str = "", *, subject: str = KOORDLET, audience: Any = MANAGER_AUDIENCE, expires: int = FAR
) -> str:
    """One that claims this; those of different names are different."""
    claims = {"aud": audience, "exp": expires, "iss": "https://issuer", "jti": name, "sub": subject}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    encoded = [urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "signature"])
