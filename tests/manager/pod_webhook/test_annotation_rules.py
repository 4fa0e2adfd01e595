from __future__ import annotations

from typing import Any

import pytest
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.pod_webhook.validating import validate_pod
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model import keys
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

SPEC = keys.ANNOTATION_EXTENDED_RESOURCE_SPEC
VALID = {
    keys.ANNOTATION_CPU_BURST: '{"policy": "auto", "cpuBurstPercent": 200}',
    keys.ANNOTATION_MEMORY_QOS: '{"policy": "auto"}',
    keys.ANNOTATION_NETWORK_QOS: '{"ingressLimit": "10M"}',
    keys.ANNOTATION_BLKIO_QOS: '{"blocks": []}',
    keys.ANNOTATION_CPU_QOS: '{"groupIdentity": 1}',
    keys.ANNOTATION_RESCTRL: '{"llc": {"schemata": {"range": [0, 50]}}}',
    keys.ANNOTATION_RESOURCE_SPEC: '{"preferredCPUBindPolicy": "FullPCPUs"}',
    keys.ANNOTATION_DEVICE_ALLOCATE_HINT: '{"gpu": {}}',
    keys.ANNOTATION_GANG_GROUPS: '["a/b"]',
    keys.ANNOTATION_GANG_MODE: "NonStrict",
    "example.com/other": "{nope",
}


def answers(
    annotations: dict[str, str], old: dict[str, str] | None = None
) -> tuple[AdmissionResponse, AdmissionResponse]:
    def pod(noted: dict[str, str]) -> dict[str, Any]:
        spec = {"containers": [{"name": "c"}]}
        return {"metadata": {"name": "p", "annotations": noted}, "spec": spec}

    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    asked = AdmissionRequest(
        *("u", operation, "pods", "", "", "ns", "p"),
        object=pod(annotations),
        old=pod(old) if old is not None else {},
    )
    return mutate_pod(asked, ClusterView()), validate_pod(asked, ClusterView())


@pytest.mark.parametrize("text", ["{nope", "[]", '{"containers": 5}', "[" * 100_000])
def test_batch_resources_that_cannot_be_read_are_refused(text: str) -> None:
    created, _ = answers({SPEC: text})
    assert created.refusal.startswith(f'pod "ns/p": annotation {SPEC}: ')
    _, updated = answers({SPEC: text}, {SPEC: '{"containers": {}}'})
    assert updated.refusal.startswith(f'pod "ns/p": annotation {SPEC}: ')
    assert "\n" not in updated.refusal
    assert not answers({SPEC: text}, {SPEC: text})[1].refusal, "it was there before"


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        *((key, "{nope", '"{nope"') for key in VALID if "/" in key and "example" not in key),
        (keys.ANNOTATION_CPU_BURST, '{"policy": "often"}', '"often"'),
        (keys.ANNOTATION_CPU_BURST, '{"cpuBurstPercent": 0}', "cpuBurstPercent is 0"),
        (keys.ANNOTATION_BLKIO_QOS, '{"blocks": [{"name": 5}]}', "name"),
        (keys.ANNOTATION_NETWORK_QOS, '{"ingressLimit": "x"}', "ingressLimit"),
        (keys.ANNOTATION_GANG_GROUPS, '{"a": 1}', "expected a list of gangs"),
        (keys.ANNOTATION_GANG_MODE, "Foo", '"Foo"; expected Strict or NonStrict'),
        (keys.ANNOTATION_GANG_MATCH_POLICY, "once", '"once"; expected only-waiting or'),
        (keys.ANNOTATION_GANG_MIN_AVAILABLE, "x", '"x"; expected a number from 0'),
        (keys.ANNOTATION_GANG_MIN_AVAILABLE, "-1", '"-1"; expected a number from 0'),
        (keys.ANNOTATION_GANG_WAITING_TIME, "5", '"5"; expected a duration'),
    ],
)
def test_what_will_be_ignored_is_warned_of_when_it_is_written(
    key: str, text: str, problem: str
) -> None:
    for old in (None, {}, VALID):
        _, answer = answers(VALID | {key: text}, old)
        assert not answer.refusal
        (line,) = answer.warnings
        assert key in line
        assert problem in line
    assert not answers({key: text, "a": "b"}, {key: text})[1].warnings


def test_what_can_be_read_is_not_mentioned() -> None:
    created, validated = answers(VALID)
    assert created.warnings == validated.warnings == ()
