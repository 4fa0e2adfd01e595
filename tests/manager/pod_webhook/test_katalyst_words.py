from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.pod_webhook.validating import admit_pod, validate_pod
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


def test_both_names_of_a_resource_are_left_to_their_author() -> None:
    given = pod("reclaimed_cores")
    given["spec"]["containers"][0]["resources"]["requests"] = {"kubernetes.io/batch-cpu": "1k"}
    answer = mutate_pod(creation(given), VIEW)
    assert answer.object is not None
    assert answer.object["spec"] == given["spec"]
    assert (
        "container c asks for resource.katalyst.kubewharf.io/reclaimed_millicpu and "
        in (answer.warnings[0])
    )


@pytest.mark.parametrize(
    ("labels", "dry_run", "message"),
    [
        ({}, False, ""),
        ({"koordinator.sh/qosClass": "LS"}, True, ""),
        (
            {"koordinator.sh/qosClass": "LS"},
            False,
            'which is BE, and label koordinator.sh/qosClass is "LS": the label counts',
        ),
    ],
)
async def test_conflicts_of_an_admitted_pod_are_an_event(
    labels: dict[str, str], dry_run: bool, message: str
) -> None:
    events: list[tuple[dict[str, Any], str, str]] = []
    view = replace(VIEW, record=lambda *event: events.append(event))
    given = pod("reclaimed_cores")
    given["metadata"] |= {"labels": labels, "uid": "u-1"}
    if labels:
        del given["spec"]["containers"][0]["resources"]
    admission = replace(creation(given), dry_run=dry_run)
    mutated = mutate_pod(admission, view).object or given
    response = await admit_pod(replace(admission, object=mutated), view)
    assert response.refusal == ""
    assert [message in line for _, _, line in events] == [True] * bool(message)
    for about, reason, _ in events:
        assert (about["metadata"]["uid"], reason) == ("u-1", "KatalystWordsIgnored")
