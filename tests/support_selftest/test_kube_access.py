"""Who a token is of, and who may what."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.resources import NODES
from kubernetes.aio import client

from tests.support.kube_access import service_account
from tests.support.kube_api import KubeApi
from tests.support_selftest.kube_clients import ApiException, connected, node

READS = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
USER = "system:serviceaccount:koord:koordlet"


async def review(api_client: client.ApiClient, token: str, *audiences: str) -> Any:
    reviews = client.AuthenticationV1Api(api_client)
    spec = client.V1TokenReviewSpec(token=token, audiences=[*audiences] or None)
    return (await reviews.create_token_review(client.V1TokenReview(spec=spec))).status


async def test_whose_a_token_is(api: KubeApi, api_client: client.ApiClient) -> None:
    who = service_account("koordlet", "koord", node="n1", pod="koordlet-1", uid="u")
    api.access.identities["secret"] = who
    found = await review(api_client, "secret")
    assert (found.authenticated, found.user.username, found.user.uid) == (True, USER, "u")
    assert "system:serviceaccounts:koord" in found.user.groups
    assert found.user.extra == {
        "authentication.kubernetes.io/node-name": ["n1"],
        "authentication.kubernetes.io/pod-name": ["koordlet-1"],
    }
    assert not (await review(api_client, "other")).authenticated


async def test_for_whom_a_token_is(api: KubeApi, api_client: client.ApiClient) -> None:
    who = service_account("koordlet", audiences=frozenset({"manager"}))
    api.access.identities["secret"] = who
    found = await review(api_client, "secret", "manager", "others")
    assert (found.authenticated, found.audiences) == (True, ["manager"])
    assert not (await review(api_client, "secret")).authenticated


async def test_a_review_without_a_token(api_client: client.ApiClient) -> None:
    with pytest.raises(ApiException) as raised:
        await review(api_client, "")
    assert raised.value.status == 400


async def may(api_client: client.ApiClient, user: str, verb: str, **about: str) -> bool:
    reviews = client.AuthorizationV1Api(api_client)
    attributes = client.V1ResourceAttributes(verb=verb, **about)
    spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
    body = client.V1SubjectAccessReview(spec=spec)
    return bool((await reviews.create_subject_access_review(body)).status.allowed)


async def test_who_may_what(api: KubeApi, api_client: client.ApiClient) -> None:
    api.access.grant(USER, READS)
    status = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["*"]}
    api.access.grant(USER, status | {"resourceNames": ["n1"]})
    api.access.grant(USER, {**READS, "resources": ["*"]}, namespace="koord")
    assert await may(api_client, USER, "get", resource="nodes")
    assert not await may(api_client, "other", "get", resource="nodes")
    assert not await may(api_client, USER, "delete", resource="nodes")
    assert not await may(api_client, USER, "get", resource="nodes", group="apps")
    asked = {"resource": "nodes", "subresource": "status"}
    assert await may(api_client, USER, "patch", **asked, name="n1")
    assert not await may(api_client, USER, "patch", **asked, name="n2")
    assert await may(api_client, USER, "list", resource="pods", namespace="koord")
    assert not await may(api_client, USER, "list", resource="pods", namespace="other")
    api.access.revoke(USER)
    assert not await may(api_client, USER, "get", resource="nodes")


async def test_a_review_of_nothing(api_client: client.ApiClient) -> None:
    reviews = client.AuthorizationV1Api(api_client)
    for spec in ({"user": "a"}, {"resourceAttributes": {"verb": "get"}}):
        with pytest.raises(ApiException) as raised:
            await reviews.create_subject_access_review({"spec": spec})
        assert raised.value.status == 422


async def test_the_rules_hold_for_requests(api: KubeApi) -> None:
    api.access.identities["secret"] = service_account("koordlet", "koord")
    api.access.grant("system:serviceaccounts", READS)
    api.access.enforced = True
    api.put(NODES, node("n1"))
    async with connected(api, "secret") as made:
        core = client.CoreV1Api(made)
        assert len((await core.list_node()).items) == 1
        with pytest.raises(ApiException) as raised:
            await core.delete_node("n1")
    assert raised.value.status == 403
    assert f'User \\"{USER}\\" cannot delete resource \\"nodes\\"' in raised.value.body


async def test_a_fault_may_be_one_for_a_single_token(api: KubeApi) -> None:
    api.put(NODES, node("n1"))
    api.fail(times=9, status=500, token="unlucky")
    for token, fails in (("unlucky", True), ("lucky", False), ("", False)):
        async with connected(api, token) as made:
            asked = client.CoreV1Api(made).read_node("n1")
            if fails:
                with pytest.raises(ApiException, match="500"):
                    await asked
            else:
                assert (await asked).metadata.name == "n1"
