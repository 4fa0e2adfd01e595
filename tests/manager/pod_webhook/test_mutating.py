from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import ADMITTED, AdmissionOperation, AdmissionRequest

from tests.support.admissions import creation, update

Object = dict[str, Any]

PROFILE = {
    "spec": {
        "selector": {"matchLabels": {"app": "report"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    }
}
TREE = {"quota.scheduling.koordinator.sh/tree-id": "t"}
VIEW = ClusterView(
    profiles={"batch": PROFILE},
    namespaces={"batch": {}},
    priority_classes={"koord-batch": {"value": 5500}},
    quotas={"x/batch": {"metadata": {"labels": TREE}}},
    quota_profiles={
        "x/p": {"metadata": {"labels": TREE}, "spec": {"nodeSelector": {"matchLabels": {"a": "b"}}}}
    },
    gates={"MultiQuotaTree": True},
)
POD: Object = {
    "metadata": {"generateName": "report-", "labels": {"app": "report"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "resources": {"limits": {"cpu": "2", "memory": "1Gi", "koordinator.sh/gpu": "50"}},
            }
        ]
    },
}


def test_a_plain_pod_becomes_a_batch_pod_in_all_steps() -> None:
    kept = copy.deepcopy(POD)
    verdict = mutate_pod(creation(POD), VIEW)
    assert kept == POD
    assert (verdict.refusal, verdict.warnings) == ("", ())
    pod = verdict.object
    assert pod is not None
    batch = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "1Gi"}
    gpu = {
        "koordinator.sh/gpu-core": "50",
        "koordinator.sh/gpu-memory-ratio": "50",
        "koordinator.sh/gpu.shared": "1",
    }
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": batch | gpu,
        "requests": batch | gpu,
    }
    assert pod["metadata"]["labels"] == {"app": "report", "koordinator.sh/qosClass": "BE"}
    (text,) = pod["metadata"]["annotations"].values()
    assert json.loads(text) == {"containers": {"c": {"limits": batch, "requests": batch}}}
    assert pod["spec"]["priority"] == 5500
    assert "nodeAffinity" in pod["spec"]["affinity"]


def test_what_needs_no_change_is_admitted_as_it_is() -> None:
    plain: Object = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    assert mutate_pod(creation(plain, "shop"), VIEW) == ADMITTED
    once = mutate_pod(creation(POD), VIEW).object
    assert mutate_pod(creation(once), VIEW) == ADMITTED


@pytest.mark.parametrize(
    "admission",
    [
        update(POD, POD),
        creation(POD, "kube-system"),
        AdmissionRequest(
            "1", AdmissionOperation.CREATE, "pods", subresource="binding", object={"target": 1}
        ),
        AdmissionRequest("1", AdmissionOperation.DELETE, "pods", old=POD),
        AdmissionRequest(
            "1", AdmissionOperation.CONNECT, "pods", object={"kind": "PodExecOptions"}
        ),
    ],
)
def test_only_new_pods_are_looked_at(admission: AdmissionRequest) -> None:
    assert mutate_pod(admission, VIEW) == ADMITTED


def test_what_is_no_pod_is_a_bad_request() -> None:
    verdict = mutate_pod(creation({"spec": {"containers": "c"}}), VIEW)
    assert verdict.code == 400
    assert verdict.refusal.startswith("no pod: Expected `array`, got `str`")


def test_a_profile_that_cannot_be_applied_refuses_its_pods_and_no_others() -> None:
    view = ClusterView(profiles={"batch": PROFILE}, namespaces={"batch": {}})
    verdict = mutate_pod(creation(POD), view)
    assert (verdict.code, verdict.object) == (500, None)
    assert verdict.refusal == (
        'pod "batch/report-*": ClusterColocationProfile "batch" spec.priorityClassName is '
        '"koord-batch", which is not in the cluster; '
        "create that PriorityClass, or mend the profile"
    )
    other = {**POD, "metadata": {"labels": {"app": "web"}}}
    assert not mutate_pod(creation(other), view).refusal
