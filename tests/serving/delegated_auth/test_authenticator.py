from __future__ import annotations

import asyncio

import pytest
from koord_kube.protocol.api import ApiError
from koord_serving.delegated_auth.authenticator import _TOKENS, DelegatedAuthenticator
from koord_serving.delegated_auth.core.reviews import AccessAttributes
from koord_serving.delegated_auth.core.users import User

from tests.support.kube_api import Identity, Reviews
from tests.support.waiting import until

JANE = User("jane", groups=("readers",))
LIST = AccessAttributes("list", "metrics.koordinator.sh", "v1alpha1", "nodemetrics")
READS = {"verbs": ["list"], "apiGroups": ["metrics.koordinator.sh"], "resources": ["nodemetrics"]}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_whose_a_token_is_is_asked_again_after_a_while() -> None:
    reviews, clock = Reviews(), Clock()
    reviews.access.identities["t"] = Identity("jane", ("readers",), extra={"k": ("v",)})
    authenticator = DelegatedAuthenticator(reviews.api, monotonic=clock)
    assert await authenticator.user("t", "a") == User("jane", "", ("readers",), (("k", ("v",)),))
    assert await authenticator.user("unknown", "a") is None
    del reviews.access.identities["t"]
    clock.now = 9.9
    assert await authenticator.user("t", "a") is not None
    assert await authenticator.user("unknown", "a") is None
    assert len(reviews.asked) == 2
    clock.now = 10.0
    assert await authenticator.user("t", "a") is None


async def test_who_may_what_is_asked_again_after_a_while() -> None:
    reviews, clock = Reviews(), Clock()
    authenticator = DelegatedAuthenticator(reviews.api, monotonic=clock)
    refusal = await authenticator.refusal(JANE, LIST)
    assert refusal == 'User "jane" cannot list nodemetrics.metrics.koordinator.sh'
    reviews.access.grant("readers", READS)
    assert await authenticator.refusal(JANE, LIST) == refusal
    clock.now = 10.0
    assert await authenticator.refusal(JANE, LIST) == ""
    assert await authenticator.refusal(User("joe"), LIST) != ""
    assert await authenticator.refusal(JANE, LIST._replace(verb="get", name="n1")) != ""
    assert (
        await authenticator.refusal(JANE, AccessAttributes("get", path="/apis"))
        == 'User "jane" cannot get /apis'
    )


async def test_unknown_callers_tokens_have_few_places_and_push_nobody_out() -> None:
    reviews, clock = Reviews(), Clock()
    reviews.access.identities["t"] = Identity("jane", ("readers",))
    authenticator = DelegatedAuthenticator(reviews.api, monotonic=clock)
    await authenticator.user("t", "a")
    reviews.stuck.clear()
    loop = asyncio.get_running_loop()
    stuck = [loop.create_task(authenticator.user(f"x{one}", "b")) for one in range(_TOKENS.each)]
    await until(lambda: reviews.waiting == _TOKENS.each)
    with pytest.raises(ApiError, match="too many"):
        await authenticator.user("y", "b")
    clock.now = 10.0
    known = loop.create_task(authenticator.user("t", "b"))
    await until(lambda: reviews.waiting == _TOKENS.each + 1)
    reviews.stuck.set()
    assert await asyncio.gather(*stuck) == [None] * _TOKENS.each
    assert await known == User("jane", "", ("readers",))


async def test_masters_are_not_asked_about() -> None:
    reviews = Reviews()
    reviews.away = True
    authenticator = DelegatedAuthenticator(reviews.api)
    assert await authenticator.refusal(User("x", groups=("system:masters",)), LIST) == ""
    with pytest.raises(ApiError):
        await authenticator.refusal(JANE, LIST)
