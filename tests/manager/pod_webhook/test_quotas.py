from __future__ import annotations

import json

import pytest
from koord_manager.pod_webhook.quotas import quota_of
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import Object


def quota(name: str, namespaces: object = None) -> Object:
    text = namespaces if isinstance(namespaces, str) else json.dumps(namespaces)
    noted = {} if namespaces is None else {"quota.scheduling.koordinator.sh/namespaces": text}
    return {"metadata": {"name": name, "annotations": noted}}


QUOTAS = {
    "a/team": quota("team"),
    "a/shop": quota("shop"),
    "a/bound": quota("bound", ["blog", "wiki"]),
    "b/later": quota("later", ["blog"]),
    "b/odd": quota("odd", "wiki, news"),
    "b/odder": quota("odder", {"news": 1}),
}


@pytest.mark.parametrize(
    ("label", "namespace", "expected"),
    [
        ("team", "shop", "team"),
        ("gone", "shop", None),
        (None, "shop", "shop"),
        (None, "blog", "bound"),
        (None, "wiki", "bound"),
        (None, "news", None),
        ("", "shop", "shop"),
    ],
)
def test_by_label_or_else_by_namespace(
    label: str | None, namespace: str, expected: str | None
) -> None:
    labels = {} if label is None else {"quota.scheduling.koordinator.sh/name": label}
    found = quota_of(labels, namespace, ClusterView(quotas=QUOTAS))
    assert (found["metadata"]["name"] if found else None) == expected


def test_the_gate_leaves_the_label_alone() -> None:
    view = ClusterView(quotas=QUOTAS, gates={"DisableDefaultQuota": True})
    assert quota_of({}, "shop", view) is None
    assert quota_of({"quota.scheduling.koordinator.sh/name": "team"}, "shop", view)
