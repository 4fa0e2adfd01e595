from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_manager.resize.core import pods, record
from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.pods import ANNOTATION_RECORD, ContainerFailure, ResizePod
from koord_manager.resize.core.record import NO_REPORT, ResizeRecord, ThrottlingReport
from koord_model.keys import CPU, LABEL_QOS, MEMORY

GIB, MIB = 1 << 30, 1 << 20
AT = 1_795_168_800.0
BEFORE = ResizableResources({CPU: 1000, MEMORY: GIB}, {CPU: 2000, MEMORY: 2 * GIB})
TARGET = ResizableResources({CPU: 500, MEMORY: 512 * MIB}, {CPU: 1000, MEMORY: GIB})
DONE = ResizeRecord({"c": BEFORE}, {"c": TARGET}, AT, 0.1)
RESIZED = ResizePod("shop", "web-0", containers={"c": TARGET})
RESOURCES = {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}


def pod(
    status: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **meta: Any
) -> ResizePod:
    running = {"name": "c", "resources": RESOURCES, "state": {"running": {}}}
    return pods.read(
        {
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u", **meta},
            "spec": {"containers": [{"name": "c", "resources": RESOURCES, **(container or {})}]},
            "status": {"phase": "Running", "containerStatuses": [running], **(status or {})},
        }
    )


def condition(kind: str, reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "m"}]}


def test_a_record_is_read_as_it_was_written() -> None:
    found = replace(RESIZED, record=record.encode(DONE))
    assert record.read(found) == DONE
    assert not record.is_unfinished(found, DONE)
    assert record.is_unfinished(replace(found, containers={"c": BEFORE}), DONE)
    with pytest.raises(ValueError, match=f"annotation {ANNOTATION_RECORD}: .* \\(not undone\\)"):
        record.read(replace(RESIZED, record='{"at": -1}'))


@pytest.mark.parametrize(
    ("seconds", "is_kill", "restarts", "harm"),
    [
        (30.0, True, (), "c ran out of memory 30 s after it got less"),
        (86400.0, True, (), "c ran out of memory 86400 s after it got less"),
        (-30.0, True, (), ""),
        (30.0, False, (), "c failed 30 s after it got less"),
        (7200.0, False, (), ""),
        (30.0, False, (("c", CPU),), ""),
    ],
)
def test_failures_that_are_due_to_a_resize(
    seconds: float, is_kill: bool, restarts: tuple[tuple[str, str], ...], harm: str
) -> None:
    failures = (ContainerFailure("c", AT + seconds, is_kill),)
    failed = replace(RESIZED, failures=failures, restarts=frozenset(restarts))
    found = {name: harm.reason for name, harm in record.harm(failed, DONE, NO_REPORT).items()}
    assert found == ({"c": harm} if harm else {})
    others = replace(failed, containers={"c": ResizableResources({CPU: 1})})
    assert record.harm(others, DONE, NO_REPORT) == {}  # what somebody has set since stays
    raised = ResizeRecord({"c": TARGET}, {"c": BEFORE}, AT)
    assert record.harm(replace(failed, containers={"c": BEFORE}), raised, NO_REPORT) == {}


@pytest.mark.parametrize(
    ("seconds", "throttled", "is_harm"),
    [(600, 0.4, True), (600, 0.3, False), (60, 0.9, False), (100_000, 0.9, False)],
)
def test_throttling_that_is_due_to_a_resize(
    seconds: float, throttled: float, is_harm: bool
) -> None:
    report = ThrottlingReport(throttled, AT + seconds)
    assert bool(record.harm(RESIZED, DONE, report)) is is_harm


@pytest.mark.parametrize(
    ("found", "refusal", "pending"),
    [
        (pod(), "", ""),
        (pod({"phase": "Pending"}), "", "not running"),
        (pod(labels={LABEL_QOS: "LSR"}), "LSR pods", ""),
        (pod(labels={LABEL_QOS: "BE"}), "best-effort", ""),
        (pod(annotations={"kubernetes.io/config.mirror": "m"}), "static", ""),
        (pod({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}), "", "its kubelet"),
        (pod(condition("PodResizePending", "Infeasible")), "", "not done (Infeasible: m)"),
    ],
)
def test_pods_that_are_left_alone(found: ResizePod, refusal: str, pending: str) -> None:
    assert refusal in found.refusal
    assert pending in found.pending
    assert (bool(refusal), bool(pending)) == (bool(found.refusal), bool(found.pending))


def test_ends_of_containers_and_restarts_by_policy() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-20T10:00:30Z"}}
    ended = {"terminated": {"reason": "Completed", "finishedAt": "2026-11-20T10:00:30Z"}}
    statuses = [{"name": "c", "lastState": killed}, {"name": "d", "lastState": ended}]
    rules = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    ]
    found = pod({"containerStatuses": statuses}, {"resizePolicy": rules})
    assert found.failures == (ContainerFailure("c", AT + 30, ran_out_of_memory=True),)
    assert found.restarts == {("c", MEMORY)}
