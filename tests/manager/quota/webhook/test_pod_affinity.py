from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.core.view import QuotaView
from koord_manager.quota.webhook.pod_affinity import mutated
from koord_model.elastic_quota import ElasticQuota

Object = dict[str, Any]
TREE = {"quota.scheduling.koordinator.sh/tree-id": "t"}
POOL = {"key": "pool", "operator": "In", "values": ["a"]}
ZONE = {"key": "zone", "operator": "Exists"}
SELECTOR: Object = {"matchLabels": {"pool": "a"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def view(selector: object = SELECTOR, **more: Object) -> QuotaView:
    profile = {"metadata": {"labels": TREE}, "spec": {"nodeSelector": selector}}
    return QuotaView(
        quotas=QuotaTopology([ElasticQuota("ns", "ns", tree_id="t"), ElasticQuota("bare", "bare")]),
        quota_profiles={"x/b": profile, "x/a": {"spec": {}}, **more},
    )


def pod(terms: object = None) -> Object:
    affinity = {} if terms is None else {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    return {"metadata": {}, "spec": {"containers": [], "affinity": affinity}}


def terms(given: Object, cluster: QuotaView) -> Any:
    once = mutated(given, {}, "ns", cluster, [])
    assert mutated(once, {}, "ns", cluster, []) == once
    return once["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_pod_is_kept_on_the_nodes_of_its_tree() -> None:
    assert terms(pod(), view()) == [{"matchExpressions": [POOL]}]
    assert terms({"metadata": {}, "spec": {"containers": []}}, view()) == [
        {"matchExpressions": [POOL]}
    ]


def test_each_term_gets_it_but_an_empty_one_which_means_no_node() -> None:
    by_field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    given = pod([{"matchExpressions": [ZONE]}, by_field, {}])
    assert terms(given, view()) == [
        {"matchExpressions": [ZONE, POOL]},
        {**by_field, "matchExpressions": [POOL]},
        {},
    ]


def test_expressions_of_all_kinds() -> None:
    selector = {
        "matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "b", "operator": "DoesNotExist"},
        ]
    }
    assert terms(pod(), view(selector)) == [
        {
            "matchExpressions": [
                {"key": "a", "operator": "NotIn", "values": ["x", "y"]},
                {"key": "b", "operator": "DoesNotExist"},
            ]
        }
    ]


@pytest.mark.parametrize(
    ("namespace", "cluster"),
    [
        ("other", view()),
        ("bare", view()),
        ("ns", view({})),
        ("ns", view(None)),
        ("ns", replace(view(), quota_profiles={})),
    ],
)
def test_otherwise_it_stays(namespace: str, cluster: QuotaView) -> None:
    given = pod()
    warnings: list[str] = []
    assert mutated(given, {}, namespace, cluster, warnings) is given
    assert warnings == []


def test_a_selector_that_cannot_be_read_is_reported() -> None:
    warnings: list[str] = []
    given = pod()
    assert mutated(given, {}, "ns", view([1]), warnings) is given
    assert warnings == [
        (
            "the nodeSelector of the quota tree's ElasticQuotaProfile cannot be used "
            "(the pod is not kept on the nodes of its quota tree)"
        )
    ]
