from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from koord_manager.resize.core import pods, record
from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.pods import ResizePod
from koord_manager.resize.core.record import ANNOTATION_RECORD, ResizeRecord
from koord_model.keys import CPU, LABEL_QOS, MEMORY

GIB, MIB = 1 << 30, 1 << 20
BEFORE = ResizableResources({CPU: 1000, MEMORY: GIB}, {MEMORY: 2 * GIB})
TARGET = ResizableResources({CPU: 500, MEMORY: 512 * MIB}, {MEMORY: GIB})
DONE = ResizeRecord({"c": BEFORE}, {"c": TARGET}, at=1_795_168_800.0)
KILLED = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-20T10:00:30Z"}}
RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}


def pod(
    status: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **meta: Any
) -> ResizePod:
    running = {"name": "c", "resources": RESOURCES, "state": {"running": {}}}
    document = {
        "metadata": {"namespace": "shop", "name": "web-0", "uid": "u", **meta},
        "spec": {"containers": [{"name": "c", "resources": RESOURCES, **(container or {})}]},
        "status": {"phase": "Running", "containerStatuses": [running], **(status or {})},
    }
    return pods.decode(msgspec.json.encode(document))


def condition(kind: str, reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "m"}]}


def test_a_record_is_read_as_it_was_written() -> None:
    found = pod(annotations={ANNOTATION_RECORD: record.encode(DONE)})
    assert record.read(found) == DONE
    assert not record.unfinished(found, DONE)
    assert record.unfinished(replace(found, containers={"c": BEFORE}), DONE)
    with pytest.raises(ValueError, match=f"annotation {ANNOTATION_RECORD}: .* \\(not undone\\)"):
        record.read(pod(annotations={ANNOTATION_RECORD: '{"at": -1}'}))


def test_what_ran_out_of_memory_gets_back_what_it_had() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": RESOURCES, "lastState": KILLED}]}
    killed = pod(status)
    at = killed.kills["c"]
    since = msgspec.structs.replace(DONE, at=at - 60)
    assert record.to_undo(killed, since) == {"c": BEFORE}
    assert record.to_undo(killed, msgspec.structs.replace(DONE, at=at + 60)) == {}
    raised = msgspec.structs.replace(since, before={"c": TARGET}, target={"c": BEFORE})
    assert record.to_undo(replace(killed, containers={"c": BEFORE}), raised) == {}
    assert record.to_undo(replace(killed, containers={"c": BEFORE}), since) == {}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod(), ""),
        (pod({"phase": "Pending"}), "not running"),
        (pod(labels={LABEL_QOS: "LSR"}), "LSR pods"),
        (pod(labels={LABEL_QOS: "BE"}), "best-effort"),
        (pod({"containerStatuses": [{"name": "c"}]}), "its kubelet"),
        (pod(condition("PodResizePending", "Infeasible")), "not done (Infeasible: m)"),
        (pod(condition("PodResizeInProgress", "")), "not done"),
    ],
)
def test_pods_that_are_left_alone(found: ResizePod, reason: str) -> None:
    assert reason in found.refusal
    assert bool(reason) == bool(found.refusal)


def test_a_resize_that_would_restart_the_container_is_known() -> None:
    rules = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    ]
    assert pod(container={"resizePolicy": rules}).restarts == {("c", MEMORY)}
