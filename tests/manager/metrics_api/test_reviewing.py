from __future__ import annotations

import pytest
from koord_kube.api import ApiError
from koord_manager.metrics_api.reviewing import Asked, Gatekeeper, digest
from koord_manager.metrics_api.users import User

from tests.support.kube_access import Identity
from tests.support.kube_reviews import Reviews

JANE = User("jane", groups=("readers",))
LIST = Asked("list", "metrics.koordinator.sh", "v1alpha1", "nodemetrics")
READS = {
    "verbs": ["list"],
    "apiGroups": ["metrics.koordinator.sh"],
    "resources": ["nodemetrics"],
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_whose_a_token_is_is_asked_again_after_a_while() -> None:
    reviews, clock = Reviews(), Clock()
    reviews.access.identities["t"] = Identity("jane", ("readers",), extra={"k": ("v",)})
    keeper = Gatekeeper(reviews.api, monotonic=clock)
    assert await keeper.user("t") == User("jane", "", ("readers",), (("k", ("v",)),))
    assert await keeper.user("unknown") is None
    del reviews.access.identities["t"]
    clock.now = 9.9
    assert await keeper.user("t") is not None
    assert await keeper.user("unknown") is None
    assert len(reviews.asked) == 2
    clock.now = 10.0
    assert await keeper.user("t") is None


async def test_who_may_what_is_asked_again_after_a_while() -> None:
    reviews, clock = Reviews(), Clock()
    keeper = Gatekeeper(reviews.api, monotonic=clock)
    refusal = await keeper.refusal(JANE, LIST)
    assert refusal == 'User "jane" cannot list nodemetrics.metrics.koordinator.sh'
    reviews.access.grant("readers", READS)
    assert await keeper.refusal(JANE, LIST) == refusal
    clock.now = 10.0
    assert await keeper.refusal(JANE, LIST) == ""
    assert await keeper.refusal(User("joe"), LIST) != ""
    assert await keeper.refusal(JANE, LIST._replace(verb="get", name="n1")) != ""
    assert await keeper.refusal(JANE, Asked("get", path="/apis")) == 'User "jane" cannot get /apis'


async def test_masters_are_not_asked_about() -> None:
    reviews = Reviews()
    reviews.away = True
    keeper = Gatekeeper(reviews.api)
    assert await keeper.refusal(User("x", groups=("system:masters",)), LIST) == ""
    with pytest.raises(ApiError):
        await keeper.refusal(JANE, LIST)


def test_tokens_are_told_apart_by_their_digests_alone() -> None:
    assert digest("a") != digest("b")
    assert b"token" not in digest("token")
    digest("\udcff")
