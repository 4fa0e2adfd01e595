from __future__ import annotations

import pytest
from koord_manager.pod_webhook.scope import concerns, namespace_of
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest

VIEW = ClusterView(
    namespaces={"system": {"metadata": {"labels": {"control-plane": ""}}}, "shop": {}}
)


@pytest.mark.parametrize(
    ("namespace", "resource", "subresource", "group", "expected"),
    [
        ("shop", "pods", "", "", True),
        ("unknown", "pods", "", "", True),
        ("kube-system", "pods", "", "", False),
        ("system", "pods", "", "", False),
        ("shop", "pods", "status", "", False),
        ("shop", "pods", "ephemeralcontainers", "", False),
        ("shop", "pods", "resize", "", True),
        ("kube-system", "pods", "resize", "", False),
        ("shop", "nodes", "", "", False),
        ("shop", "pods", "", "metrics.k8s.io", False),
    ],
)
def test_pods_themselves_of_all_but_the_clusters_own_namespaces(
    namespace: str, resource: str, subresource: str, group: str, expected: bool
) -> None:
    asked = AdmissionRequest(
        "1", AdmissionOperation.CREATE, resource, group, subresource, namespace
    )
    assert concerns(asked, VIEW) is expected


def test_the_namespace_may_be_the_objects_alone() -> None:
    pod = {"metadata": {"namespace": "kube-system"}}
    asked = AdmissionRequest("1", AdmissionOperation.CREATE, "pods", object=pod)
    assert namespace_of(asked) == "kube-system"
    assert not concerns(asked, VIEW)


@pytest.mark.parametrize("operation", [AdmissionOperation.CREATE, AdmissionOperation.UPDATE])
def test_the_mirror_of_a_static_pod_is_left_alone(operation: AdmissionOperation) -> None:
    mirror = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "hash"}}}
    for old in (mirror, {}):
        asked = AdmissionRequest("1", operation, "pods", namespace="shop", object=mirror, old=old)
        assert not concerns(asked, VIEW)
