"""Reviews by the API server: few at once, and never two of the same.

Anybody can send tokens, as many as they like, and each costs a request to the API server. So
tokens that were good before have a limit of their own, an unknown caller may have few reviews
under way, and one beyond the limit is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import Api, ApiError
from koord_kube.protocol.resources import ACCESS_REVIEWS, TOKEN_REVIEWS

from koord_serving.delegated_auth.core.reviews import (
    AccessAnswer,
    AccessAttributes,
    access_answer,
    access_review,
    reviewed_user,
    token_review,
)
from koord_serving.delegated_auth.core.users import User
from koord_serving.limits.core.concurrency_limit import ConcurrencyLimit

T = TypeVar("T")


class TooManyReviewsError(ApiError):
    """The limit is reached; the API server was not asked."""


class ReviewLimits(NamedTuple):
    """Reviews at once: of what was good before, of all else, and of that by one unknown caller.

    ``qps`` and ``burst`` bound how often each of both may begin one; 0 is unbounded.
    """

    known: int
    unknown: int
    each: int
    qps: float = 0.0
    burst: int = 0


class _Lane:
    """The reviews of callers that are known, or of those that are not."""

    def __init__(self, limits: ReviewLimits, total: int, each: int) -> None:
        self._limit = ConcurrencyLimit(total, each)
        self._bucket = TokenBucket(limits.qps, limits.burst) if limits.qps else None
        self.leave = self._limit.leave

    def enter(self, caller: str, now: float) -> bool:
        if not self._limit.enter(caller):
            return False
        if self._bucket is None or self._bucket.allow(now):
            return True
        self._limit.leave(caller)
        return False


class ReviewPool(Generic[T]):
    """Runs reviews within ``limits``.

    A review goes on if its caller goes away: nodes give up sooner than a slow API
    server answers, and find the answer the next time.
    """

    def __init__(
        self, limits: ReviewLimits, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._unknown = _Lane(limits, limits.unknown, limits.each)
        self._known = _Lane(limits, limits.known, limits.known)
        self._monotonic = monotonic
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def run(
        self, key: Hashable, review: Callable[[], Coroutine[Any, Any, T]], unknown_caller: str = ""
    ) -> T:
        """The result of a review; ``unknown_caller`` is who sent what was never good, else "".

        Raises:
            TooManyReviewsError: a limit is reached.
            ApiError: the API server cannot be asked.
        """
        running = self._running.get(key) or self._begin(key, review, unknown_caller)
        return await asyncio.shield(running)

    def close(self) -> None:
        """Cancel what is under way."""
        for running in self._running.values():
            running.cancel()

    def _begin(
        self, key: Hashable, review: Callable[[], Coroutine[Any, Any, T]], unknown_caller: str
    ) -> asyncio.Task[T]:
        lane = self._unknown if unknown_caller else self._known
        if not lane.enter(unknown_caller, self._monotonic()):
            raise TooManyReviewsError("too many reviews are under way; try again later")

        def done(task: asyncio.Task[T]) -> None:
            lane.leave(unknown_caller)
            del self._running[key]
            if not task.cancelled():
                task.exception()  # its callers may have gone

        task = self._running[key] = asyncio.get_running_loop().create_task(review())
        task.add_done_callback(done)
        return task


async def review_token(api: Api, token: str, audience: str = "") -> User | None:
    """The user that a token for ``audience`` belongs to; ``None`` if it is not valid.

    Raises:
        ApiError: the API server cannot be asked. The message does not contain the token.
    """
    return reviewed_user(await api.create(TOKEN_REVIEWS, token_review(token, audience)), audience)


async def review_access(api: Api, user: User, attributes: AccessAttributes) -> AccessAnswer:
    """Ask the API server if a user may do something.

    Raises:
        ApiError: the API server cannot be asked.
    """
    return access_answer(await api.create(ACCESS_REVIEWS, access_review(user, attributes)))
