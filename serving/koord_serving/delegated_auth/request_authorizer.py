"""Authorization of requests for plain paths by the API server, as in kube-rbac-proxy.

A bearer token goes into a TokenReview, its user into a SubjectAccessReview about the path. Requests
to the API server are bounded: unknown callers must not spend what this program's own requests need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

from koord_kube.protocol.api import Api, ApiError

from koord_serving.delegated_auth.core.reviews import (
    AccessAttributes,
    bearer_token,
    digest,
    forbidden,
)
from koord_serving.delegated_auth.review_pool import (
    ReviewLimits,
    ReviewPool,
    TooManyReviewsError,
    review_access,
    review_token,
)
from koord_serving.limits.core.ttl_cache import TTLCache

ANSWER_SECONDS = 10.0
"""Lifetime of an answer, as with the API server's own extension servers."""

_REVIEWS = ReviewLimits(known=4, unknown=4, each=4, qps=2.0, burst=8)
_REVIEW_SECONDS = 5.0
_ALLOWED, _REFUSED = 256, 1024
"""Answers cached; refusals are apart, since anybody can have as many of them as he likes."""

_ANYBODY = "unknown"

_Key = tuple[bytes, str, str]


class AccessVerdict(NamedTuple):
    """``status`` is that of HTTP: 200, 401, 403, 429 or 503; ``reason`` is a line for the caller.

    It never says why the API server failed: an unknown caller may read it.
    """

    status: int
    reason: str = ""


class RequestAuthorizer:
    """Answers by the API server's word.

    Callers that were let in before have a limit of their own: unknown callers, however many,
    cannot keep Prometheus out. ``on_warning`` gets reviews that failed. No token is stored.
    """

    def __init__(
        self,
        api: Api,
        on_warning: Callable[[str], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._allowed: TTLCache[_Key, AccessVerdict] = TTLCache(_ALLOWED)
        self._refused: TTLCache[_Key, AccessVerdict] = TTLCache(_REFUSED)
        self._reviews: ReviewPool[AccessVerdict] = ReviewPool(_REVIEWS, monotonic=monotonic)

    async def check(self, authorization: str, verb: str, path: str) -> AccessVerdict:
        """Decide if the sender of this header may do this to a path."""
        token = bearer_token(authorization)
        if not token:
            return AccessVerdict(401, "send a bearer token")
        key, now = (digest(token), verb, path), self._monotonic()
        answer = self._allowed.get(key, now) or self._refused.get(key, now)
        if answer is not None:
            return answer
        caller = _ANYBODY if self._allowed.held(key, now) is None else ""
        try:
            return await self._reviews.run(key, partial(self._review, key, token), caller)
        except TooManyReviewsError:
            return AccessVerdict(429, "too many tokens to review, try again later")
        except (ApiError, TimeoutError) as error:
            self._on_warning(f"token review: {str(error) or 'no answer in time'}")
            return AccessVerdict(503, "tokens cannot be reviewed now")

    async def _review(self, key: _Key, token: str) -> AccessVerdict:
        async with asyncio.timeout(_REVIEW_SECONDS):
            verdict = await self._verdict(token, AccessAttributes(key[1], path=key[2]))
        now = self._monotonic()
        if verdict.status == 200:
            # It is known until others push it out.
            self._allowed.put(key, verdict, now, ANSWER_SECONDS, inf)
        else:
            self._allowed.forget(key)
            self._refused.put(key, verdict, now, ANSWER_SECONDS)
        return verdict

    async def _verdict(self, token: str, attributes: AccessAttributes) -> AccessVerdict:
        user = await review_token(self._api, token)
        if user is None:
            return AccessVerdict(401, "the token is not valid")
        answer = await review_access(self._api, user, attributes)
        return (
            AccessVerdict(200)
            if answer.allowed
            else AccessVerdict(403, forbidden(user, attributes))
        )
