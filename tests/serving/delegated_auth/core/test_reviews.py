from __future__ import annotations

from typing import Any

import pytest
from koord_serving.aggregated.core.list_options import parse
from koord_serving.delegated_auth.core.reviews import (
    AccessAnswer,
    AccessAttributes,
    access_answer,
    access_review,
    bearer_token,
    digest,
    reviewed_user,
    token_review,
)
from koord_serving.delegated_auth.core.users import User


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  a.b-c_d=", "a.b-c_d="),
        ("Bearer " + "x" * 16384, "x" * 16384),
        ("Bearer " + "x" * 16385, ""),
        ("", ""),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Basic abc", ""),
        ("Bearer a b", ""),
        ("Bearer a\tb", ""),
        ("Bearer ä", ""),
    ],
)
def test_bearer_token(header: str, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        "yes",
        {"authenticated": True},
        {"authenticated": True, "user": {}},
        {"authenticated": "true", "user": {"username": "jane"}},
        {"authenticated": False, "user": {"username": "jane"}},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "user": {"username": 7}},
    ],
)
def test_nobody(status: Any) -> None:
    assert reviewed_user({"status": status}) is None


def test_the_user_of_a_token() -> None:
    given = {"username": "u", "uid": "1", "groups": ["g"], "extra": {"b": ["1", "2"], "a": ["x"]}}
    user = reviewed_user({"status": {"authenticated": True, "user": given}})
    assert user == User("u", "1", ("g",), (("a", ("x",)), ("b", ("1", "2"))))
    assert (user.one("a"), user.one("b"), user.one("c")) == ("x", "", "")


def test_an_answer_for_another_audience_vouches_for_nobody() -> None:
    assert token_review("t", "ours")["spec"] == {"token": "t", "audiences": ["ours"]}
    assert token_review("t")["spec"] == {"token": "t"}
    status = {"authenticated": True, "user": {"username": "u"}, "audiences": ["ours"]}
    assert reviewed_user({"status": status}, "ours") == User("u")
    assert reviewed_user({"status": status | {"audiences": ["theirs"]}}, "ours") is None
    assert reviewed_user({"status": status | {"audiences": None}}, "ours") is None


def test_the_whole_user_is_reviewed() -> None:
    user = User("jane", "1", ("a", "b"), (("k", ("v", "w")),))
    of_user = {"user": "jane", "uid": "1", "groups": ["a", "b"], "extra": {"k": ["v", "w"]}}
    path = AccessAttributes("get", path="/metrics")
    assert access_review(user, path)["spec"] == {
        **of_user,
        "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
    }
    assert access_review(user, AccessAttributes("list", "g", "v1", "things"))["spec"] == {
        **of_user,
        "resourceAttributes": {"verb": "list", "group": "g", "version": "v1", "resource": "things"},
    }


def test_what_a_list_is_limited_to_is_reviewed_too() -> None:
    options = parse({"fieldSelector": "metadata.name=a", "labelSelector": "x,y in (2,1)"})
    attributes = AccessAttributes(
        "list", resource="things", name="a", fields=options.fields, labels=options.labels
    )
    assert access_review(User("u"), attributes)["spec"]["resourceAttributes"] == {
        "verb": "list",
        "resource": "things",
        "name": "a",
        "fieldSelector": {
            "requirements": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
        },
        "labelSelector": {
            "requirements": [
                {"key": "x", "operator": "Exists"},
                {"key": "y", "operator": "In", "values": ["1", "2"]},
            ]
        },
    }


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ({"allowed": True, "reason": "RBAC"}, AccessAnswer(True, "RBAC")),
        ({"allowed": True, "denied": True}, AccessAnswer(False)),
        ({"allowed": "true"}, AccessAnswer(False)),
        ({}, AccessAnswer(False)),
        (None, AccessAnswer(False)),
    ],
)
def test_access_answer(status: Any, answer: AccessAnswer) -> None:
    assert access_answer({"status": status}) == answer


def test_tokens_are_distinguished_by_their_digests_alone() -> None:
    assert digest("a") != digest("b")
    assert b"token" not in digest("token")
    digest("\udcff")
