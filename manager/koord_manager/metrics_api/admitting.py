"""Who may report for a node: the koordlet that runs on it, or the node itself.

What a token says is the API server's word (TokenReview). A service account's token that
is bound to a pod names the pod's node in the user's extras since Kubernetes 1.32; before,
it names the pod, whose node is looked up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from koord_kube.api import Api, ApiError, NotFoundError
from koord_kube.resources import PODS
from koord_model.excerpt import excerpt

from koord_manager.metrics_api.remembered import Remembered
from koord_manager.metrics_api.reviewing import digest, review
from koord_manager.metrics_api.users import User

SECONDS = 60.0
"""For which an answer is good at most: so long a pod that is gone may report on."""

HELD = 300.0
"""Seconds for which it stands in while the API server cannot be asked."""

_REFUSED_SECONDS = 10.0
_CAPACITY = 50_000
_NODE_USER = "system:node:"
_NODES = "system:nodes"
_EXTRA = "authentication.kubernetes.io/"
_RANDOM = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a token is good for: reports of ``node``, or nothing, and why not."""

    node: str = ""
    refusal: str = ""


class Admitting:
    """Says why a token may not report for a node, "" where it may.

    ``account`` is the service account of koordlets, NAMESPACE/NAME.

    Raises:
        ValueError: that is no such name.
    """

    def __init__(
        self,
        api: Api,
        account: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        namespace, slash, name = account.partition("/")
        if not namespace or not slash or not name or "/" in name:
            raise ValueError(f"{excerpt(account)} is no service account; expected NAMESPACE/NAME")
        self._api = api
        self._namespace = namespace
        self._user = f"system:serviceaccount:{namespace}:{name}"
        self._monotonic = monotonic
        self._chance = chance
        self._claims: Remembered[bytes, Claim] = Remembered(_CAPACITY)

    async def __call__(self, token: str, node: str) -> str:
        """Why not.

        Raises:
            ApiError: nobody can say at present.
        """
        if not token:
            return "there is no token; expected that of koordlet's service account"
        claim = await self._claim(token)
        if claim.refusal:
            return claim.refusal
        if claim.node != node:
            return f"the token is of node {excerpt(claim.node)}, not of {excerpt(node)}"
        return ""

    async def _claim(self, token: str) -> Claim:
        key = digest(token)
        known = self._claims.get(key, self._monotonic())
        if known is not None:
            return known
        try:
            claim = await self._ask(token)
        except ApiError:
            held = self._claims.held(key, self._monotonic())
            if held is None or held.refusal:
                raise
            return held
        fresh = _REFUSED_SECONDS if claim.refusal else SECONDS * (0.75 + 0.25 * self._chance())
        self._claims.put(key, claim, self._monotonic(), fresh, 0.0 if claim.refusal else HELD)
        return claim

    async def _ask(self, token: str) -> Claim:
        user = await review(self._api, token)
        if user is None:
            return Claim(refusal="the token is not good, or not any more")
        if user.name.startswith(_NODE_USER) and _NODES in user.groups:
            return Claim(user.name.removeprefix(_NODE_USER))
        if user.name != self._user:
            return Claim(refusal=f"{excerpt(user.name, 253)} may not report; {self._user} may")
        named = user.one(f"{_EXTRA}node-name")
        return Claim(named) if named else await self._by_pod(user)

    async def _by_pod(self, user: User) -> Claim:
        pod, uid = user.one(f"{_EXTRA}pod-name"), user.one(f"{_EXTRA}pod-uid")
        if not pod or not uid:
            return Claim(
                refusal="the token is bound to no pod; expected that of a projected volume"
            )
        try:
            found = await self._api.get(PODS, pod, self._namespace)
        except NotFoundError:
            return Claim(refusal=f"pod {excerpt(pod)} of the token is no more")
        node = (found.get("spec") or {}).get("nodeName")
        if (found.get("metadata") or {}).get("uid") != uid or not isinstance(node, str) or not node:
            return Claim(refusal=f"pod {excerpt(pod)} of the token is another one, or on no node")
        return Claim(node)
