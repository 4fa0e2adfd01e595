"""Asks the API server whose a token is, and what its user may do."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from koord_kube.api import Api
from koord_kube.resources import ACCESS_REVIEWS, TOKEN_REVIEWS

from koord_manager.metrics_api.remembered import Remembered
from koord_manager.metrics_api.users import MASTERS, User, reviewed

SECONDS = 10.0
"""For which the API server's answers are good, as with its own extension servers."""

_CAPACITY = 4096


class Asked(NamedTuple):
    """What a user wants to do; ``path`` is set where it is about no resource."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


class _Access(NamedTuple):
    allowed: bool
    reason: str


async def review(api: Api, token: str) -> User | None:
    """Whose a token is; ``None`` is nobody.

    Raises:
        ApiError: it could not be asked. The message is without the token.
    """
    given = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    return reviewed((await api.create(TOKEN_REVIEWS, given)).get("status"))


def digest(token: str) -> bytes:
    """By which a token is remembered: tokens themselves are kept nowhere."""
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


class Gatekeeper:
    """Users of tokens, and what users may do; both remembered for some seconds."""

    def __init__(self, api: Api, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic = monotonic
        self._users: Remembered[bytes, tuple[User | None]] = Remembered(_CAPACITY)
        self._access: Remembered[tuple[User, Asked], _Access] = Remembered(_CAPACITY)

    async def user(self, token: str) -> User | None:
        """Whose a token is; raises ``ApiError`` as ``review`` does."""
        key = digest(token)
        known = self._users.get(key, self._monotonic())
        if known is None:
            known = (await review(self._api, token),)
            self._users.put(key, known, self._monotonic(), SECONDS)
        return known[0]

    async def refusal(self, user: User, asked: Asked) -> str:
        """Why a user may not do this, in a line; "" where it may.

        Raises:
            ApiError: it could not be asked.
        """
        if MASTERS in user.groups:
            return ""
        known = self._access.get((user, asked), self._monotonic())
        if known is None:
            known = await self._review(user, asked)
            self._access.put((user, asked), known, self._monotonic(), SECONDS)
        if known.allowed:
            return ""
        what = asked.path or f"{asked.resource}.{asked.group}"
        said = f": {known.reason}" if known.reason else ""
        return f'User "{user.name}" cannot {asked.verb} {what}{said}'

    async def _review(self, user: User, asked: Asked) -> _Access:
        attributes = {key: value for key, value in asked._asdict().items() if value}
        kind = "nonResourceAttributes" if asked.path else "resourceAttributes"
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            kind: attributes,
        }
        given = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        answer = (await self._api.create(ACCESS_REVIEWS, given)).get("status") or {}
        allowed = answer.get("allowed") is True and answer.get("denied") is not True
        return _Access(allowed, str(answer.get("reason") or ""))
