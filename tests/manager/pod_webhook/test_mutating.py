from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ElasticQuota
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
    quotas=QuotaTopology([ElasticQuota("batch", "batch", tree_id="t")]),
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
    batch = {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi"}
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
    without_trees = mutate_pod(creation(POD), replace(VIEW, gates={})).object
    assert without_trees is not None
    assert "affinity" not in without_trees["spec"]


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


WITHOUT_CLASS = ClusterView(profiles={"batch": PROFILE}, namespaces={"batch": {}})
OTHER: Object = {**POD, "metadata": {"labels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("pod", "code", "refusal"),
    [
        ({"spec": {"containers": "c"}}, 400, "no pod: Expected `array`, got `str`"),
        # A profile that cannot be applied refuses its pods, and no others.
        (POD, 500, 'pod "batch/report-*": ClusterColocationProfile "batch" spec.priorityClassName'),
        (OTHER, 200, ""),
    ],
)
def test_what_is_refused(pod: Object, code: int, refusal: str) -> None:
    verdict = mutate_pod(creation(pod), WITHOUT_CLASS)
    assert verdict.refusal[: len(refusal)] == refusal
    assert bool(verdict.refusal) is (code != 200)
    assert verdict.code == code or not refusal
