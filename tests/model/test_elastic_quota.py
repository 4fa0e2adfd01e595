import json
from typing import Any

import pytest
from koord_model import keys
from koord_model.elastic_quota import (
    DEFAULT_QUOTA,
    ROOT_QUOTA,
    ElasticQuota,
    parse,
    quota_of_pod,
    quotas_by_namespace,
)


def _document(
    labels: dict[str, str] | None = None, annotations: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": "team", "namespace": "quotas", "uid": "u1"}
    return {
        "metadata": {**metadata, "labels": labels or {}, "annotations": annotations or {}},
        "spec": spec,
        "status": {"used": {"cpu": 1}},
    }


def test_a_quota_is_read_with_the_defaults_of_koordinator() -> None:
    quota, ignored = parse(_document(max={"cpu": "1.5", "memory": "1Ki"}, min={"cpu": "100m"}))
    assert quota == ElasticQuota(
        "team",
        "quotas",
        "u1",
        max={"cpu": 1500, "memory": 1024},
        min={"cpu": 100},
        used={"cpu": 1000},
        shared_weight={"cpu": 1500, "memory": 1024},
    )
    assert (quota.parent, quota.allows_lent_resource, ignored) == (ROOT_QUOTA, True, ())


def test_labels_and_annotations_of_a_quota_count() -> None:
    labels = {
        keys.LABEL_QUOTA_PARENT: "org",
        keys.LABEL_QUOTA_IS_PARENT: "true",
        keys.LABEL_QUOTA_TREE: "t",
        keys.LABEL_QUOTA_IS_ROOT: "true",
        keys.LABEL_QUOTA_IGNORE_DEFAULT_TREE: "true",
        keys.LABEL_ALLOW_LENT_RESOURCE: "false",
        keys.LABEL_ALLOW_FORCE_UPDATE: "true",
    }
    annotations = {
        keys.ANNOTATION_QUOTA_NAMESPACES: '["a","b"]',
        keys.ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS: '["cpu"]',
        keys.ANNOTATION_SHARED_WEIGHT: '{"cpu": 2}',
        keys.ANNOTATION_GUARANTEED: '{"cpu": 3}',
        keys.ANNOTATION_ALLOCATED: '{"cpu": 4}',
        keys.ANNOTATION_CHILD_REQUEST: '{"cpu": "5", "memory": null}',
        keys.ANNOTATION_QUOTA_ADMISSION: '{"cpu": 6}',
        keys.ANNOTATION_UNSCHEDULABLE_RESOURCE: '{"cpu": 7}',
        keys.ANNOTATION_TOTAL_RESOURCE: '{"memory": "8Gi"}',
    }
    quota, ignored = parse(_document(labels, annotations, max={"cpu": 1}))
    assert not ignored
    assert (quota.parent, quota.is_parent, quota.tree_id) == ("org", True, "t")
    assert (quota.is_tree_root, quota.ignores_default_tree) == (True, True)
    assert (quota.allows_lent_resource, quota.allows_force_update) == (False, True)
    assert (quota.namespaces, quota.max_strict_check_resources) == (("a", "b"), ("cpu",))
    assert (quota.shared_weight, quota.guaranteed) == ({"cpu": 2000}, {"cpu": 3000})
    assert (quota.allocated, quota.child_request) == ({"cpu": 4000}, {"cpu": 5000, "memory": 0})
    assert (quota.admission, quota.unschedulable_resource) == ({"cpu": 6000}, {"cpu": 7000})
    assert quota.total_resource == {"memory": 8 << 30}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.ANNOTATION_SHARED_WEIGHT, '{"cpu": "much"}'),
        (keys.ANNOTATION_TOTAL_RESOURCE, "[1]"),
        (keys.ANNOTATION_QUOTA_NAMESPACES, '{"a": 1}'),
        (keys.ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS, "cpu"),
        (keys.ANNOTATION_CHILD_REQUEST, 7),
    ],
)
def test_a_bad_annotation_costs_itself_and_one_line(key: str, value: Any) -> None:
    quota, (line,) = parse(_document(None, {key: value}, max={"cpu": 1}))
    assert quota == parse(_document(max={"cpu": 1}))[0]
    assert "ElasticQuota quotas/team" in line
    assert key in line


def test_a_bad_quantity_costs_its_resource() -> None:
    quota, (line,) = parse(_document(max={"cpu": "x", "memory": 1}))
    assert (quota.max, "spec.max.cpu" in line) == ({"memory": 1}, True)


def test_a_shared_weight_of_nothing_is_max() -> None:
    zero = {keys.ANNOTATION_SHARED_WEIGHT: json.dumps({"cpu": 0})}
    assert parse(_document(None, zero, max={"cpu": 1}))[0].shared_weight == {"cpu": 1000}


@pytest.mark.parametrize(
    ("label", "namespace", "default_quota", "expected"),
    [
        ("team", "other", True, "team"),
        ("gone", "shop", True, DEFAULT_QUOTA),
        (None, "shop", True, "shop"),
        (None, "lab", True, "team"),
        (None, "other", True, DEFAULT_QUOTA),
        (None, "shop", False, ""),
        ("gone", "shop", False, ""),
        ("team", "shop", False, "team"),
    ],
)
def test_a_pod_belongs_to_the_quota_of_its_label_or_its_namespace(
    label: str | None, namespace: str, default_quota: bool, expected: str
) -> None:
    quotas = [
        ElasticQuota("team", "quotas", namespaces=("shop", "lab")),
        ElasticQuota("shop", "shop"),
        ElasticQuota("zoo", "quotas", namespaces=("lab",)),
    ]
    labels = {keys.LABEL_QUOTA_NAME: label} if label else {}
    known = {quota.name for quota in quotas}
    by_namespace = quotas_by_namespace(quotas)
    found = quota_of_pod(labels, namespace, by_namespace, known, default_quota=default_quota)
    assert found == expected
