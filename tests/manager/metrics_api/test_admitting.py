from __future__ import annotations

from collections.abc import Mapping

import pytest
from koord_kube.api import ApiError
from koord_kube.resources import PODS
from koord_manager.metrics_api.admitting import Admitting

from tests.support.kube_access import Identity, service_account
from tests.support.kube_reviews import Reviews

NAMESPACE = "koordinator-system"
UID = "authentication.kubernetes.io/pod-uid"
POD = "authentication.kubernetes.io/pod-name"


class Door:
    """Who comes with which token, and when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reviews = Reviews()
        self.admit = Admitting(
            self.reviews.api,
            f"{NAMESPACE}/koordlet",
            monotonic=lambda: self.now,
            chance=lambda: 1.0,
        )

    def know(self, token: str, who: Identity) -> None:
        self.reviews.access.identities[token] = who

    def know_by_pod(self, token: str, extra: Mapping[str, tuple[str, ...]]) -> None:
        who = service_account("koordlet", NAMESPACE)
        self.know(token, Identity(who.user, who.groups, extra=extra))

    def put_pod(self, name: str, uid: str, node: str) -> None:
        pod = {"metadata": {"name": name, "uid": uid}, "spec": {"nodeName": node} if node else {}}
        self.reviews.put(PODS, pod, NAMESPACE)


@pytest.fixture
def door() -> Door:
    return Door()


async def test_a_koordlet_reports_for_its_node_alone(door: Door) -> None:
    door.know("t", service_account("koordlet", NAMESPACE, node="n1"))
    assert await door.admit("t", "n1") == ""
    assert await door.admit("t", "n2") == 'the token is of node "n1", not of "n2"'
    assert len(door.reviews.asked) == 1


async def test_a_node_reports_for_itself_alone(door: Door) -> None:
    door.know("t", Identity("system:node:n1", ("system:nodes",)))
    assert await door.admit("t", "n1") == ""
    assert await door.admit("t", "n2") != ""
    door.know("u", Identity("system:node:n1"))
    assert "may not report" in await door.admit("u", "n1")


@pytest.mark.parametrize(
    ("token", "who", "said"),
    [
        ("", None, "there is no token"),
        ("t", None, "the token is not good"),
        ("t", service_account("other", NAMESPACE, node="n1"), "koordlet may"),
        ("t", service_account("koordlet", "default", node="n1"), "koordlet may"),
        ("t", service_account("koordlet", NAMESPACE), "bound to no pod"),
        ("t", Identity("kubernetes-admin", ("system:masters",)), "may not report"),
        (
            "t",
            service_account("koordlet", NAMESPACE, node="n1", audiences=frozenset({"x"})),
            "good",
        ),
    ],
)
async def test_others_do_not_report(
    door: Door, token: str, who: Identity | None, said: str
) -> None:
    if who is not None:
        door.know(token, who)
    assert said in await door.admit(token, "n1")


@pytest.mark.parametrize(
    ("uid", "node", "said"),
    [
        ("u1", "n1", ""),
        ("u1", "n2", 'node "n2"'),
        ("u2", "n1", "another"),
        ("u1", "", "on no node"),
    ],
)
async def test_on_older_clusters_the_pod_says_which_node(
    door: Door, uid: str, node: str, said: str
) -> None:
    door.know_by_pod("t", {POD: ("koordlet-a",), UID: ("u1",)})
    door.put_pod("koordlet-a", uid, node)
    refusal = await door.admit("t", "n1")
    assert (said in refusal) if said else refusal == ""


async def test_a_pod_that_is_gone_reports_nothing(door: Door) -> None:
    door.know_by_pod("t", {POD: ("koordlet-a",), UID: ("u1",)})
    assert "is no more" in await door.admit("t", "n1")


async def test_a_token_that_expires_is_good_for_a_minute_at_most(door: Door) -> None:
    door.know("t", service_account("koordlet", NAMESPACE, node="n1"))
    assert await door.admit("t", "n1") == ""
    del door.reviews.access.identities["t"]
    door.now = 59
    assert await door.admit("t", "n1") == ""
    door.now = 60
    assert "not good" in await door.admit("t", "n1")
    door.know("t", service_account("koordlet", NAMESPACE, node="n1"))
    door.now = 69
    assert "not good" in await door.admit("t", "n1")
    door.now = 70
    assert await door.admit("t", "n1") == ""


async def test_while_nobody_can_say_the_last_answer_stands_for_a_while(door: Door) -> None:
    door.know("t", service_account("koordlet", NAMESPACE, node="n1"))
    await door.admit("t", "n1")
    await door.admit("u", "n1")
    door.reviews.away = True
    door.now = 299
    assert await door.admit("t", "n1") == ""
    assert await door.admit("t", "n2") != ""
    for token in ("u", "v"):
        with pytest.raises(ApiError):
            await door.admit(token, "n1")
    door.now = 300
    with pytest.raises(ApiError):
        await door.admit("t", "n1")


@pytest.mark.parametrize("account", ["", "koordlet", "/koordlet", "a/", "a/b/c"])
def test_an_account_has_a_namespace_and_a_name(account: str) -> None:
    with pytest.raises(ValueError, match="expected NAMESPACE/NAME"):
        Admitting(Reviews().api, account)
