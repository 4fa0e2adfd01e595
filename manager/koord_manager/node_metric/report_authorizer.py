"""Authorization of reports for a node: only the koordlet on it may report. No IO.

It shows a token for an audience of our own, which is good for nothing else. What a token
says is the API server's word (TokenReview); what it claims itself only turns away what
cannot be right. A token that is bound to a pod or a node names the node in the user's extras
since Kubernetes 1.32; before, it names the pod, whose node is looked up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from koord_kube.protocol.api import Api, ApiError, NotFoundError
from koord_kube.protocol.resources import PODS
from koord_model.excerpt import excerpt
from koord_model.service_account_token import MANAGER_AUDIENCE, claims_of
from koord_serving.delegated_auth.core.reviews import digest
from koord_serving.delegated_auth.core.users import User
from koord_serving.delegated_auth.review_pool import ReviewLimits, ReviewPool, review_token
from koord_serving.limits.core.ttl_cache import TTLCache

REVIEWS = ReviewLimits(known=128, unknown=64, each=4)
"""At 6 s a review this still comes round to all of 5,000 nodes in five minutes."""

CONNECTIONS = REVIEWS.known + REVIEWS.unknown
"""That the client needs so that no review waits for another."""

SECONDS = 60.0
"""Longest life of an answer: a pod that is gone may report on for so long."""

HELD = 300.0
"""Seconds for which an old answer is valid while the API server is unreachable."""

PATIENCE = 1.0
"""Seconds after which an API server that does not answer counts as unreachable."""

_REFUSED_SECONDS = 10.0
_CAPACITY, _REFUSED_CAPACITY = 50_000, 10_000
_SKEW_SECONDS = 300.0  # by which another machine's clock may be off
_EXTRA = "authentication.kubernetes.io/"
_RANDOM = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class ReportClaim:
    """Scope of a token: reports of ``node``, or nothing, and the reason."""

    node: str = ""
    refusal: str = ""


class ReportAuthorizer:
    """Decides for which node a token may report.

    ``account`` is the service account of koordlets, NAMESPACE/NAME. Refused tokens are
    remembered apart from good ones, which unknown callers cannot push out.

    Raises:
        ValueError: the name is not NAMESPACE/NAME.
    """

    def __init__(
        self,
        api: Api,
        account: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = _RANDOM.random,
        patience: float = PATIENCE,
        limits: ReviewLimits = REVIEWS,
    ) -> None:
        namespace, slash, name = account.partition("/")
        if not namespace or not slash or not name or "/" in name:
            raise ValueError(
                f"{excerpt(account)} is not a service account; expected NAMESPACE/NAME"
            )
        self._api = api
        self._namespace = namespace
        self._user = f"system:serviceaccount:{namespace}:{name}"
        self._monotonic = monotonic
        self._clock = clock
        self._chance = chance
        self._patience = patience
        self._claims: TTLCache[bytes, ReportClaim] = TTLCache(_CAPACITY)
        self._refused: TTLCache[bytes, ReportClaim] = TTLCache(_REFUSED_CAPACITY)
        self._reviews: ReviewPool[ReportClaim] = ReviewPool(limits)

    async def __call__(self, token: str, caller: str) -> ReportClaim:
        """Return the scope of a token that ``caller`` brought; "" is none.

        Raises:
            ApiError: the API server cannot be asked.
        """
        if unfit := self._unfit(token):
            return ReportClaim(refusal=unfit)
        key, now = digest(token), self._monotonic()
        known = self._claims.get(key, now) or self._refused.get(key, now)
        if known is not None:
            return known
        held = self._claims.held(key, now)
        review = self._reviews.run(key, partial(self._ask, key, token), "" if held else caller)
        if held is None:
            return await review
        try:
            async with asyncio.timeout(self._patience):
                return await review
        except (ApiError, TimeoutError):
            return held

    def close(self) -> None:
        """End what is under way."""
        self._reviews.close()

    def _unfit(self, token: str) -> str:
        """Return why a token needs no request to the API server; "" if it needs one."""
        if not token:
            return f"there is no token; expected one of koordlet's for {MANAGER_AUDIENCE}"
        claims = claims_of(token)
        if claims is None:
            return "the token is not a service account's"
        if MANAGER_AUDIENCE not in claims.audiences:
            theirs = excerpt(", ".join(claims.audiences), 253)
            return (
                f"the token is for {theirs}, not for {MANAGER_AUDIENCE}; update koordlet, or give "
                "it a projected token by --node-metric-report-token-file"
            )
        if claims.subject != self._user:
            return f"{excerpt(claims.subject, 253)} may not report; {self._user} may"
        if claims.expires + _SKEW_SECONDS < self._clock():
            return "the token has expired"
        return ""

    async def _ask(self, key: bytes, token: str) -> ReportClaim:
        claim = await self._claim(token)
        now = self._monotonic()
        if claim.refusal:
            self._claims.forget(key)
            self._refused.put(key, claim, now, _REFUSED_SECONDS)
        else:
            fresh = SECONDS * (0.75 + 0.25 * self._chance())
            self._claims.put(key, claim, now, fresh, HELD)
        return claim

    async def _claim(self, token: str) -> ReportClaim:
        user = await review_token(self._api, token, MANAGER_AUDIENCE)
        if user is None:
            return ReportClaim(refusal="the token is not good, or not any more")
        if user.name != self._user:
            return ReportClaim(
                refusal=f"{excerpt(user.name, 253)} may not report; {self._user} may"
            )
        named = user.one(f"{_EXTRA}node-name")
        return ReportClaim(named) if named else await self._by_pod(user)

    async def _by_pod(self, user: User) -> ReportClaim:
        pod, uid = user.one(f"{_EXTRA}pod-name"), user.one(f"{_EXTRA}pod-uid")
        if not pod or not uid:
            return ReportClaim(
                refusal="the token is bound to no pod; expected that of a projected volume"
            )
        try:
            found = await self._api.get(PODS, pod, self._namespace)
        except NotFoundError:
            return ReportClaim(refusal=f"pod {excerpt(pod)} of the token is no more")
        node = (found.get("spec") or {}).get("nodeName")
        if (found.get("metadata") or {}).get("uid") != uid or not isinstance(node, str) or not node:
            return ReportClaim(
                refusal=f"pod {excerpt(pod)} of the token is another one, or on no node"
            )
        return ReportClaim(node)
