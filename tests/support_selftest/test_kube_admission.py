"""Which webhooks the double asks about a write, and which answers and settings it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.resources import MUTATING_WEBHOOKS, PODS

from tests.support.kube_api import KubeApi
from tests.support.kube_api.access import ADMINISTRATOR
from tests.support.kube_api.admission import (
    Attributes,
    FailedCallError,
    applies,
    default,
    read_answer,
)
from tests.support.kube_api.kinds import Key, Refused

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
NAMESPACE = {"metadata": {"name": "ns", "labels": {"on": "yes"}}}
REVIEW = {"request": {"uid": "u"}}


def configuration(**more: Any) -> Any:
    rule = RULE | {key: more.pop(key) for key in RULE.keys() & more.keys()}
    webhook = {
        "name": "pods.koord.sh",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"name": "hook", "namespace": "koord"}},
        "rules": [rule],
        **more,
    }
    made = {"metadata": {"name": "hooks"}, "webhooks": [webhook]}
    default(made, mutating=True)
    return made


@pytest.mark.parametrize(
    ("more", "subresource", "asked"),
    [
        ({}, "", True),
        ({"namespaceSelector": {"matchLabels": {"on": "yes"}}}, "", True),
        ({"namespaceSelector": {"matchLabels": {"on": "no"}}}, "", False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}, "", True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "", True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, "", False),
        ({"operations": ["UPDATE", "DELETE"]}, "", False),
        ({"operations": ["*"]}, "", True),
        ({"apiGroups": ["apps"]}, "", False),
        ({"resources": ["pods/status"]}, "", False),
        ({"resources": ["pods/*"]}, "", False),
        ({"resources": ["*"]}, "", True),
        ({"resources": ["*"]}, "eviction", False),
        ({"resources": ["pods/*"]}, "eviction", True),
        ({"resources": ["*/*"]}, "eviction", True),
    ],
)
def test_which_webhooks_are_asked(more: Any, subresource: str, asked: bool) -> None:
    [webhook] = configuration(**more)["webhooks"]
    new = {"metadata": {"labels": {"a": "b"}}}
    write = Attributes(Key(PODS, "ns", "p"), subresource, "CREATE", new, None, ADMINISTRATOR)
    assert applies(webhook, write, NAMESPACE) is asked


@pytest.mark.parametrize(
    "answer",
    [None, {"uid": "other"}, {"uid": "u", "patch": "W10="},
     {"uid": "u", "patchType": "JSONPatch", "patch": "bm8="}],
)  # fmt: skip
def test_answers_that_are_refused(answer: Any) -> None:
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    with pytest.raises(FailedCallError):
        read_answer({**head, "response": answer}, REVIEW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "short"},
        {"admissionReviewVersions": ["v2"]},
        {"sideEffects": "Some"},
        {"timeoutSeconds": 31},
        {"failurePolicy": "Maybe"},
        {"clientConfig": {}},
        {"clientConfig": {"service": {"name": "a", "namespace": "b"}, "caBundle": "bm8="}},
        {"objectSelector": {"matchLabels": {"a": 1}}},
        {"operations": []},
    ],
)
async def test_configurations_that_are_refused(wrong: Any) -> None:
    api = KubeApi()
    with pytest.raises(Refused, match="is invalid"):
        api.put(MUTATING_WEBHOOKS, configuration(**wrong))
    assert api.put(MUTATING_WEBHOOKS, configuration())
