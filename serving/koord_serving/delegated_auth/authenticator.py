"""Identity and permissions of an aggregated API's callers, by the API server's word."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from koord_kube.protocol.api import Api

from koord_serving.delegated_auth.core.reviews import (
    AccessAnswer,
    AccessAttributes,
    digest,
    forbidden,
)
from koord_serving.delegated_auth.core.users import MASTERS, User
from koord_serving.delegated_auth.review_pool import (
    ReviewLimits,
    ReviewPool,
    review_access,
    review_token,
)
from koord_serving.limits.core.ttl_cache import TTLCache

ANSWER_SECONDS = 10.0
"""Lifetime of the API server's answers, as with its own extension servers."""

_TOKENS = ReviewLimits(known=32, unknown=32, each=4)
_ACCESS = ReviewLimits(known=0, unknown=32, each=8)

CONNECTIONS = sum(limits.known + limits.unknown for limits in (_TOKENS, _ACCESS))
"""That the client needs so that no review waits for another."""

_CAPACITY = 4096
_KNOWN_SECONDS = 300.0


class DelegatedAuthenticator:
    """Users of tokens, and what users may do; both cached for some seconds.

    Tokens have to be for ``audience``, "" is the API server itself. Refused tokens have a cache of
    their own: unknown callers cannot push out good ones.
    """

    def __init__(
        self,
        api: Api,
        *,
        audience: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._audience = audience
        self._monotonic = monotonic
        self._users: TTLCache[bytes, User] = TTLCache(_CAPACITY)
        self._refused: TTLCache[bytes, bool] = TTLCache(_CAPACITY)
        self._access: TTLCache[tuple[User, AccessAttributes], AccessAnswer] = TTLCache(_CAPACITY)
        self._token_reviews: ReviewPool[User | None] = ReviewPool(_TOKENS)
        self._access_reviews: ReviewPool[AccessAnswer] = ReviewPool(_ACCESS)

    async def user(self, token: str, caller: str) -> User | None:
        """The user of a token that ``caller`` sent; ``None`` if it is not valid.

        Raises:
            ApiError: the API server cannot be asked.
        """
        key, now = digest(token), self._monotonic()
        known = self._users.get(key, now)
        if known is not None or self._refused.get(key, now):
            return known
        unknown_caller = "" if self._users.held(key, now) else caller
        review = partial(self._review_token, key, token)
        return await self._token_reviews.run(key, review, unknown_caller)

    async def refusal(self, user: User, attributes: AccessAttributes) -> str:
        """Return why a user may not do this, in a line; "" if it may.

        Raises:
            ApiError: the API server cannot be asked.
        """
        if MASTERS in user.groups:
            return ""
        key = user, attributes
        answer = self._access.get(key, self._monotonic())
        if answer is None:
            review = partial(self._review_access, *key)
            answer = await self._access_reviews.run(key, review, user.name)
        return "" if answer.allowed else forbidden(user, attributes, answer.reason)

    def close(self) -> None:
        """Cancel what is under way."""
        self._token_reviews.close()
        self._access_reviews.close()

    async def _review_token(self, key: bytes, token: str) -> User | None:
        user = await review_token(self._api, token, self._audience)
        now = self._monotonic()
        if user is None:
            self._users.forget(key)
            self._refused.put(key, True, now, ANSWER_SECONDS)
        else:
            self._users.put(key, user, now, ANSWER_SECONDS, _KNOWN_SECONDS)
        return user

    async def _review_access(self, user: User, attributes: AccessAttributes) -> AccessAnswer:
        answer = await review_access(self._api, user, attributes)
        self._access.put((user, attributes), answer, self._monotonic(), ANSWER_SECONDS)
        return answer
