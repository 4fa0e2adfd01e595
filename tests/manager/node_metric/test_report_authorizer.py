from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import PODS
from koord_manager.node_metric.report_authorizer import ReportAuthorizer
from koord_model.service_account_token import MANAGER_AUDIENCE
from koord_serving.delegated_auth.review_pool import ReviewLimits

from tests.support.kube_api import AUDIENCE, Identity, Reviews, koordlet_account, service_account
from tests.support.service_account_tokens import KOORDLET, unsigned_token
from tests.support.waiting import until

NAMESPACE = "koordinator-system"
UID = "authentication.kubernetes.io/pod-uid"
POD = "authentication.kubernetes.io/pod-name"
NOW = 1_790_000_000
LIMITS = ReviewLimits(known=2, unknown=3, each=2)


class Door:
    """Who comes with which token, and when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reviews = Reviews()
        self.admit = ReportAuthorizer(
            self.reviews.api,
            f"{NAMESPACE}/koordlet",
            monotonic=lambda: self.now,
            clock=lambda: NOW,
            chance=lambda: 1.0,
            patience=0.05,
            limits=LIMITS,
        )

    def know(self, name: str, who: Identity) -> str:
        token = unsigned_token(name)
        self.reviews.access.identities[token] = who
        return token

    def know_by_pod(self, name: str, extra: Mapping[str, tuple[str, ...]]) -> str:
        who = koordlet_account()
        return self.know(name, Identity(who.user, who.groups, extra=extra, audiences=who.audiences))

    def put_pod(self, name: str, uid: str, node: str) -> None:
        pod = {"metadata": {"name": name, "uid": uid}, "spec": {"nodeName": node} if node else {}}
        self.reviews.put(PODS, pod, NAMESPACE)

    async def node(self, token: str, caller: str = "ipv4:10.0.0.1") -> str:
        """Which may be reported for, "" none."""
        return (await self.admit(token, caller)).node

    async def refusal(self, token: str) -> str:
        claim = await self.admit(token, "ipv4:10.0.0.1")
        assert not (claim.node and claim.refusal)
        return claim.refusal

    def begin(self, token: str, caller: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(self.node(token, caller))

    async def waiting(self, many: int) -> None:
        await until(lambda: self.reviews.waiting == many, "so many reviews are under way")


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.admit.close()


async def test_a_koordlet_reports_for_its_node(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    assert [await door.node(token) for _ in range(2)] == ["n1"] * 2
    assert [spec["audiences"] for _, spec in door.reviews.asked] == [[MANAGER_AUDIENCE]]


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", "there is no token"),
        ("nonsense", "not a service account's"),
        ("a.b.c", "not a service account's"),
        ("..", "not a service account's"),
        (unsigned_token(audience=AUDIENCE), "update koordlet"),
        (unsigned_token(audience=[AUDIENCE, "x"]), "update koordlet"),
        (unsigned_token(audience=[]), "update koordlet"),
        (unsigned_token(subject="system:serviceaccount:default:koordlet"), f"{KOORDLET} may"),
        (unsigned_token(subject=f"{NAMESPACE}:other"), f"{KOORDLET} may"),
        (unsigned_token(expires=NOW - 301), "expired"),
        (unsigned_token("x" * 20_000), "not a service account's"),
    ],
)
async def test_what_cannot_be_right_is_not_asked_about(door: Door, token: str, said: str) -> None:
    assert said in await door.refusal(token)
    assert door.reviews.asked == []


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (None, "the token is not good"),
        (koordlet_account("n1", audiences=frozenset({AUDIENCE})), "the token is not good"),
        (service_account("other", audiences=frozenset({MANAGER_AUDIENCE})), "koordlet may"),
        (koordlet_account(), "bound to no pod"),
    ],
)
async def test_what_a_token_claims_is_held_against_what_the_api_server_says(
    door: Door, who: Identity | None, said: str
) -> None:
    token = door.know("t", who) if who else unsigned_token("t")
    assert said in await door.refusal(token)
    assert len(door.reviews.asked) == 1


async def test_a_server_that_does_not_know_of_audiences_vouches_for_nobody(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    door.reviews.knows_audiences = False
    assert "not good" in await door.refusal(token)


@pytest.mark.parametrize(
    ("uid", "node", "said"), [("u1", "n1", ""), ("u2", "n1", "another"), ("u1", "", "on no node")]
)
async def test_on_older_clusters_the_pod_says_which_node(
    door: Door, uid: str, node: str, said: str
) -> None:
    token = door.know_by_pod("t", {POD: ("koordlet-a",), UID: ("u1",)})
    door.put_pod("koordlet-a", uid, node)
    claim = await door.admit(token, "ipv4:10.0.0.1")
    assert said in claim.refusal
    assert claim.node == ("" if said else node)


async def test_a_pod_that_is_gone_reports_nothing(door: Door) -> None:
    token = door.know_by_pod("t", {POD: ("koordlet-a",), UID: ("u1",)})
    assert "is no more" in await door.refusal(token)


async def test_a_token_that_expires_is_good_for_a_minute_at_most(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    assert await door.node(token) == "n1"
    del door.reviews.access.identities[token]
    door.now = 59
    assert await door.node(token) == "n1"
    door.now = 60
    assert "not good" in await door.refusal(token)
    door.know("t", koordlet_account("n1"))
    door.now = 69
    assert "not good" in await door.refusal(token)
    door.now = 70
    assert await door.node(token) == "n1"


async def test_while_nobody_can_say_the_last_answer_stands_for_a_while(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    other, unknown = unsigned_token("u"), unsigned_token("v")
    await door.admit(token, "a")
    await door.admit(other, "a")
    door.reviews.away = True
    door.now = 299
    assert await door.node(token) == "n1"
    for one in (other, unknown):
        with pytest.raises(ApiError):
            await door.admit(one, "a")
    door.now = 300
    with pytest.raises(ApiError):
        await door.admit(token, "a")


async def test_a_slow_answer_is_as_none_and_counts_when_it_comes(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    await door.admit(token, "a")
    door.now = 60
    door.reviews.stuck.clear()
    assert await door.node(token) == "n1"
    del door.reviews.access.identities[token]
    door.reviews.stuck.set()
    await door.waiting(0)
    assert "not good" in await door.refusal(token)


async def test_unknown_callers_are_refused_at_once_where_all_reviews_hang(door: Door) -> None:
    good = [door.know(name, koordlet_account(name)) for name in ("n1", "n2", "n3")]
    for token in good:
        await door.admit(token, "a")
    door.reviews.stuck.clear()
    stuck = [door.begin(unsigned_token(f"x{one}"), "b") for one in range(2)]
    await door.waiting(2)
    with pytest.raises(ApiError, match="too many"):
        await door.admit(unsigned_token("x2"), "b")
    stuck.append(door.begin(unsigned_token("y"), "c"))
    await door.waiting(3)
    for caller in "bcd":
        with pytest.raises(ApiError, match="too many"):
            await door.admit(unsigned_token("z"), caller)
    # Whoever was good before is still, even if there is no place to ask about them all.
    door.now = 60
    assert [await door.node(token, "b") for token in good] == ["n1", "n2", "n3"]
    await door.waiting(5)
    door.reviews.stuck.set()
    assert await asyncio.gather(*stuck) == ["", "", ""]
    assert await door.node(unsigned_token("x2"), "b") == ""


async def test_a_token_is_asked_about_once_by_however_many(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    door.reviews.stuck.clear()
    waiting = [door.begin(token, "a") for _ in range(5)]
    await door.waiting(1)
    # A node that gives up early finds the answer when it comes again.
    waiting.pop().cancel()
    await asyncio.sleep(0)
    door.reviews.stuck.set()
    assert await asyncio.gather(*waiting) == ["n1"] * 4
    assert await door.node(token) == "n1"
    assert len(door.reviews.asked) == 1


async def test_an_answer_comes_though_nobody_waits_any_more(door: Door) -> None:
    token = door.know("t", koordlet_account("n1"))
    door.reviews.stuck.clear()
    asking = door.begin(token, "a")
    await door.waiting(1)
    asking.cancel()
    door.reviews.stuck.set()
    await door.waiting(0)
    door.reviews.away = True
    assert await door.node(token) == "n1"


async def test_a_flood_of_unknown_callers_does_not_push_out_who_is_known(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door.admit._claims, "_capacity", 10)
    monkeypatch.setattr(door.admit._refused, "_capacity", 10)
    token = door.know("t", koordlet_account("n1"))
    await door.admit(token, "a")
    for number in range(30):
        await door.admit(unsigned_token(f"x{number}"), "b")
    door.reviews.away = True
    assert await door.node(token) == "n1"
    assert len(door.admit._refused) == 10


@pytest.mark.parametrize("account", ["", "koordlet", "/koordlet", "a/", "a/b/c"])
def test_an_account_has_a_namespace_and_a_name(account: str) -> None:
    with pytest.raises(ValueError, match="expected NAMESPACE/NAME"):
        ReportAuthorizer(Reviews().api, account)
