from dataclasses import replace
from typing import Any

import pytest
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from koord_serving.admission.core.configurations import (
    FRAMEWORK,
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
    served,
)

WHERE = WebhookClientConfig(namespace="koordinator-system")


def handler(admission: AdmissionRequest, view: ClusterView) -> AdmissionResponse:
    """A double: admits everything."""
    return ADMITTED


MUTATING = WebhookDefinition(
    name="m.koordinator.sh",
    path="/m",
    handler=handler,
    gate="M",
    resource="pods",
    operations=(AdmissionOperation.CREATE, AdmissionOperation.UPDATE),
    mutating=True,
    fails=True,
)
VALIDATING = replace(
    MUTATING, name="v.koordinator.sh", path="/v", gate="V", mutating=False, fails=False, seconds=2
)
TABLE = (MUTATING, VALIDATING)
GATES = {FRAMEWORK: True, "M": True, "V": True}


def only(row: WebhookDefinition, where: WebhookClientConfig = WHERE) -> Any:
    both = configurations([row], {FRAMEWORK: True, row.gate: True}, where)
    [webhook] = [one for document in both for one in document["webhooks"]]
    return webhook


def test_a_row_has_all_its_fields() -> None:
    mutating, validating = configurations(TABLE, GATES, WHERE)
    selector = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["koordinator-system", "kube-system"],
            }
        ]
    }
    service = {
        "namespace": "koordinator-system",
        "name": "koordinator-webhook-service",
        "port": 443,
        "path": "/m",
    }
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods"],
        "scope": "*",
    }
    webhook = {
        "name": "m.koordinator.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": selector,
        "objectSelector": {},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "reinvocationPolicy": "Never",
    }
    assert mutating == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "koordinator-mutating-webhook-configuration"},
        "webhooks": [webhook],
    }
    assert validating["kind"] == "ValidatingWebhookConfiguration"
    assert validating["metadata"] == {"name": "koordinator-validating-webhook-configuration"}
    [other] = validating["webhooks"]
    assert "reinvocationPolicy" not in other
    assert (other["failurePolicy"], other["timeoutSeconds"]) == ("Ignore", 2)


OWN, SYSTEM = "koordinator-system", "kube-system"
LABELLED = {"key": "kind", "operator": "In", "values": ["x"]}


@pytest.mark.parametrize(
    ("changes", "own", "namespaces", "control_plane"),
    [
        ({}, OWN, [OWN, SYSTEM], True),
        ({"in_control_plane": False}, OWN, [OWN, SYSTEM], False),
        ({"in_own": True}, OWN, [SYSTEM], True),
        ({}, SYSTEM, [SYSTEM], True),
    ],
)
def test_namespaces_that_are_not_asked_about(
    changes: Any, own: str, namespaces: list[str], control_plane: bool
) -> None:
    webhook = only(replace(MUTATING, **changes), replace(WHERE, namespace=own))
    out, *more = webhook["namespaceSelector"]["matchExpressions"]
    assert out["values"] == namespaces
    skipped = {"key": "control-plane", "operator": "DoesNotExist"}
    assert more == ([] if control_plane else [skipped])


@pytest.mark.parametrize(
    ("changes", "where", "field", "expected"),
    [
        ({}, {"url": "https://a:1"}, "clientConfig", {"url": "https://a:1/m"}),
        # Objects without a namespace have no selector of one.
        ({"namespaced": False}, {}, "namespaceSelector", {}),
        ({"labelled": ("kind", "x")}, {}, "objectSelector", {"matchExpressions": [LABELLED]}),
    ],
)
def test_what_else_a_row_may_say(changes: Any, where: Any, field: str, expected: Any) -> None:
    assert only(replace(MUTATING, **changes), replace(WHERE, **where))[field] == expected


def test_gates_switch_rows_and_one_switches_all() -> None:
    assert served(TABLE, GATES) == TABLE
    assert served(TABLE, {**GATES, "M": False}) == (VALIDATING,)
    assert served(TABLE, {**GATES, FRAMEWORK: False}) == ()
    off = configurations(TABLE, {**GATES, FRAMEWORK: False}, WHERE)
    assert [one["webhooks"] for one in off] == [[], []]
