from collections.abc import Awaitable
from dataclasses import replace
from unittest.mock import ANY

import pytest
from koord_manager.program.gates import DEFAULTS
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.webhooks.cluster_view import ClusterView
from koord_manager.webhooks.table import TABLE
from koord_model.elastic_quota import ElasticQuota
from koord_serving.admission.core.admission import ADMITTED, AdmissionOperation, AdmissionRequest
from koord_serving.admission.core.configurations import (
    FRAMEWORK,
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
    served,
)

ALL = dict.fromkeys(DEFAULTS, True)
WHERE = WebhookClientConfig(namespace="koordinator-system")


DEFAULTING = "melasticquota.koordinator.sh"
"""A new quota always gets something."""
QUOTAS = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"


def test_by_default_pods_and_quotas_are_looked_at_and_nothing_else() -> None:
    pods, quotas = {"/mutate-pod", "/validate-pod"}, {f"/mutate-{QUOTAS}", f"/validate-{QUOTAS}"}
    assert {row.path for row in served(TABLE, DEFAULTS)} == pods | quotas
    assert {FRAMEWORK, *(row.gate for row in TABLE)} <= DEFAULTS.keys()
    assert len({row.name for row in TABLE}) == len(TABLE)
    handlers = {(row.path, row.handler) for row in TABLE}
    assert len(handlers) == len({path for path, _ in handlers}), "a path is one function"


def test_webhooks_as_koordinator_lists_them() -> None:
    listed = [
        (one["name"], one["failurePolicy"], *one["rules"][0]["operations"])
        for document in configurations(TABLE, ALL, WHERE)
        for one in document["webhooks"]
    ]
    assert listed == [
        ("mpod-create.koordinator.sh", "Fail", "CREATE"),
        ("melasticquota.koordinator.sh", "Fail", "CREATE"),
        ("mreservation-create.koordinator.sh", "Fail", "CREATE"),
        ("mnode-status.koordinator.sh", "Ignore", "UPDATE"),
        ("vpod.koordinator.sh", "Fail", "CREATE", "UPDATE"),
        ("vpodbinding.koordinator.sh", "Ignore", "CREATE"),
        ("velasticquota.koordinator.sh", "Fail", "CREATE", "UPDATE", "DELETE"),
        ("vnode.koordinator.sh", "Ignore", "CREATE", "UPDATE"),
        ("vconfigmap.koordinator.sh", "Fail", "CREATE", "UPDATE", "DELETE"),
        ("vserviceprofile.koordinator.sh", "Ignore", "CREATE", "UPDATE"),
    ]
    _, validating = configurations(TABLE, ALL, WHERE)
    pods, bindings, quotas, *_ = validating["webhooks"]
    assert pods["rules"][0]["resources"] == ["pods", "pods/resize"]
    assert bindings["rules"][0]["resources"] == ["pods/binding"]
    # Quotas are in any namespace; a dry run charges none.
    assert (quotas["namespaceSelector"], pods["sideEffects"]) == ({}, "NoneOnDryRun")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
async def test_a_plain_object_is_admitted(row: WebhookDefinition) -> None:
    resource, _, subresource = row.resource.partition("/")
    spec = {"containers": [{"name": "main", "image": "x"}]}
    plain = {"metadata": {"name": "x", "namespace": "team"}, "spec": spec}
    for operation in row.operations:
        given = {} if operation is AdmissionOperation.DELETE else plain
        question = AdmissionRequest(
            "u", operation, resource, row.group, subresource, "team", "x", object=given, old=given
        )
        known = QuotaTopology([ElasticQuota("x", "team")] if not given else ())
        answer = row.handler(question, ClusterView(gates=DEFAULTS, quotas=known))
        verdict = await answer if isinstance(answer, Awaitable) else answer
        assert verdict == (ADMITTED if row.name != DEFAULTING else replace(ADMITTED, object=ANY))
