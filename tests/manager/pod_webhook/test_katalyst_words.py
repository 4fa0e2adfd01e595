from __future__ import annotations

from typing import Any

from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.webhooks.cluster_view import ClusterView

from tests.support.admissions import creation

VIEW = ClusterView(namespaces={"batch": {}}, gates={"KatalystVocabulary": True})
RECLAIMED = {
    "resource.katalyst.kubewharf.io/reclaimed_millicpu": "2k",
    "resource.katalyst.kubewharf.io/reclaimed_memory": "1Gi",
}


def pod(level: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "annotations": {"katalyst.kubewharf.io/qos_level": level}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": dict(RECLAIMED)}}]},
    }


def test_a_reclaimed_pod_becomes_a_batch_pod_that_validation_admits() -> None:
    mutated = mutate_pod(creation(pod("reclaimed_cores")), VIEW).object
    assert mutated is not None
    assert mutated["metadata"]["labels"] == {
        "koordinator.sh/qosClass": "BE",
        "koordinator.sh/priority-class": "koord-batch",
    }
    batch = {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi"}
    assert mutated["spec"]["containers"][0]["resources"] == {"limits": batch, "requests": batch}
    assert "node.koordinator.sh/extended-resource-spec" in mutated["metadata"]["annotations"]
    assert validate_pod(creation(mutated), VIEW).refusal == ""
    assert mutate_pod(creation(mutated), VIEW).object is None


def test_reclaimed_resources_of_another_level_stay_and_are_named() -> None:
    answer = mutate_pod(creation(pod("shared_cores")), VIEW)
    assert answer.object is not None
    assert answer.object["spec"] == pod("")["spec"]
    assert len(answer.warnings) == 1
    assert "set annotation katalyst.kubewharf.io/qos_level to reclaimed_cores" in answer.warnings[0]


def test_without_the_gate_nothing_is_translated() -> None:
    view = ClusterView(namespaces={"batch": {}})
    assert mutate_pod(creation(pod("reclaimed_cores")), view).object is None
