"""Report on a quota, in annotations and its status, as Koordinator writes it.

No IO.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord_model.demand import Amounts
from koord_model.elastic_quota import DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA
from koord_model.keys import (
    ANNOTATION_ALLOCATED,
    ANNOTATION_CHILD_REQUEST,
    ANNOTATION_GUARANTEED,
    ANNOTATION_NON_PREEMPTIBLE_REQUEST,
    ANNOTATION_NON_PREEMPTIBLE_USED,
    ANNOTATION_QUOTA_REQUEST,
    ANNOTATION_QUOTA_RUNTIME,
    LABEL_ALLOW_LENT_RESOURCE,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_PARENT,
)
from koord_model.quantity import quantity_texts

from koord_scheduler.plugins.elastic_quota.quota_object import ReadQuota
from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaRules, QuotaTrees, TreeQuota

API_VERSION = "scheduling.sigs.k8s.io/v1alpha1"


def reported_amounts(trees: QuotaTrees, tree_quota: TreeQuota) -> dict[str, Amounts]:
    """Return a quota's amounts for annotations; one that shares nothing has no runtime."""
    node = tree_quota.node
    shares = not tree_quota.limits_itself and tree_quota.name != ROOT_QUOTA
    return {
        ANNOTATION_QUOTA_RUNTIME: trees.runtime(tree_quota) if shares else {},
        ANNOTATION_QUOTA_REQUEST: node.requests(),
        ANNOTATION_CHILD_REQUEST: node.child_request,
        ANNOTATION_GUARANTEED: node.guaranteed,
        ANNOTATION_ALLOCATED: node.allocated,
        ANNOTATION_NON_PREEMPTIBLE_REQUEST: node.non_preemptible_request,
        ANNOTATION_NON_PREEMPTIBLE_USED: node.non_preemptible_used,
    }


def report_patch(
    trees: QuotaTrees, tree_quota: TreeQuota, read: ReadQuota
) -> Mapping[str, Any] | None:
    """The merge patch that says how a quota stands; ``None``: the API says so already."""
    annotations = {
        key: json.dumps(quantity_texts(amounts))
        for key, amounts in reported_amounts(trees, tree_quota).items()
        if _positive(read.reported.get(key, {})) != _positive(amounts)
    }
    body: dict[str, Any] = {}
    if annotations:
        body["metadata"] = {"annotations": annotations}
    used, before = tree_quota.node.used, read.quota.used
    if _positive(before) != _positive(used):
        gone = dict.fromkeys(before.keys() - used.keys())
        body["status"] = {"used": {**quantity_texts(used), **gone}}
    if not body:
        return None
    # A charge for a pod that is not known here yet would be lost if it were not this version.
    named = {"uid": read.quota.uid, "resourceVersion": read.version}
    body["metadata"] = {**body.get("metadata", {}), **named}
    return body


def reserved_quotas(namespace: str, rules: QuotaRules) -> list[dict[str, Any]]:
    """The root, the default and the system quota, for those who look at quotas in the API."""
    labels = {LABEL_QUOTA_IS_PARENT: "true", LABEL_ALLOW_LENT_RESOURCE: "false"}
    root = {"labels": {**labels, LABEL_QUOTA_PARENT: ""}}
    return [
        _object(ROOT_QUOTA, namespace, root, {}),
        _object(DEFAULT_QUOTA, namespace, {}, {"max": quantity_texts(rules.default_max)}),
        _object(SYSTEM_QUOTA, namespace, {}, {"max": quantity_texts(rules.system_max)}),
    ]


def _object(
    name: str, namespace: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    named = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": API_VERSION, "kind": "ElasticQuota", "metadata": named, "spec": spec}


def _positive(amounts: Amounts | None) -> dict[str, int] | None:
    if amounts is None:
        return None
    return {name: amount for name, amount in amounts.items() if amount}
