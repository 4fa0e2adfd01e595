"""A batch pod that is resized by its annotation, with and without a quota."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ElasticQuota
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC as SPEC
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_serving.admission.core.admission import AdmissionResponse

from tests.support.admissions import update

QUOTA = ClusterView(quotas=QuotaTopology([ElasticQuota("batch", "batch")]))


def amounts(cpu: Any, memory: Any) -> dict[str, Any]:
    both = {BATCH_CPU: cpu, BATCH_MEMORY: memory}
    return {"requests": both, "limits": both}


def annotation(cpu: Any, memory: Any, name: str = "main") -> str:
    return json.dumps({"containers": {name: amounts(cpu, memory)}})


def pod(text: str) -> dict[str, Any]:
    """A running batch pod of half a CPU and 2 GiB."""
    return {
        "metadata": {"name": "job", "labels": {LABEL_QOS: "BE"}, "annotations": {SPEC: text}},
        "spec": {
            "nodeName": "n",
            "priority": 5500,
            "containers": [{"name": "main", "resources": amounts(500, "2Gi")}],
        },
    }


BEFORE = annotation(500, "2Gi")


def resized(text: str, view: ClusterView, before: str = BEFORE) -> AdmissionResponse:
    return validate_pod(update(pod(text), pod(before)), view)


@pytest.mark.parametrize("view", [ClusterView(), QUOTA], ids=["no quota", "quota"])
@pytest.mark.parametrize("text", [BEFORE, annotation(250, "1Gi"), annotation(500, "2147483648")])
def test_no_more_than_its_spec(view: ClusterView, text: str) -> None:
    assert resized(text, view) == AdmissionResponse()
    # Up again, within the spec.
    assert resized(BEFORE, view, before=text) == AdmissionResponse()


def test_more_is_not_what_the_scheduler_counts() -> None:
    verdict = resized(annotation(3000, "4Gi"), ClusterView())
    assert verdict.refusal == ""
    assert list(verdict.warnings) == [
        f'annotation {SPEC} limits container "main" to {resource} "{limit}", and its spec to '
        f"{spec}, which is all that the scheduler counts"
        for resource, limit, spec in ((BATCH_CPU, "3000", "500"), (BATCH_MEMORY, "4Gi", "2Gi"))
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (annotation(500, "4Gi"), f'limits container "main" to {BATCH_MEMORY} "4Gi", and its spec'),
        (annotation(3000, "1Gi"), f'"main" to {BATCH_CPU} "3000", and its spec to 500, which is'),
        ('{"containers": {"main": {}}}', f'"main" to {BATCH_CPU} "no limit", and its spec to 500'),
        (annotation(0, "2Gi"), f'"main" to {BATCH_CPU} "no limit", and its spec to 500'),
        (annotation(500, "2Gi", "other"), f'"main" to {BATCH_CPU} "no limit", and its spec to'),
        (annotation(500, "2Gi", "other"), f'"main" to {BATCH_MEMORY} "no limit"'),
        ("", f'"main" to {BATCH_CPU} "no limit", and its spec to 500'),
    ],
)
def test_a_quota_does_not_allow_more(text: str, words: str) -> None:
    verdict = resized(text, QUOTA)
    assert words in verdict.refusal
    assert 'its ElasticQuota "batch" counts; create another pod' in verdict.refusal


def test_a_pod_that_had_no_annotation_had_no_limit() -> None:
    assert resized(annotation(3000, "4Gi"), QUOTA, before="").refusal == ""


def test_what_was_there_before_stays_and_may_become_less() -> None:
    much = annotation(3000, "4Gi")
    labelled = copy.deepcopy(pod(much))
    labelled["metadata"]["labels"]["app"] = "x"
    assert validate_pod(update(labelled, pod(much)), QUOTA).refusal == ""
    assert resized(annotation(2000, "4Gi"), QUOTA, before=much).refusal == ""
    assert resized(annotation(3001, "4Gi"), QUOTA, before=much).refusal
