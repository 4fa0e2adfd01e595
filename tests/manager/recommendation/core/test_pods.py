from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.recommendation.core.pods import OutOfMemoryKill, decode


def pod(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "web-1", **meta}}


def owner(kind: str, name: str, controller: bool = True) -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": controller, "uid": "u", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("meta", "workloads"),
    [
        ({}, ()),
        ({"ownerReferences": [owner("StatefulSet", "db")]}, (("StatefulSet", "db"),)),
        ({"ownerReferences": [owner("StatefulSet", "db", controller=False)]}, ()),
        (
            {
                "ownerReferences": [owner("ReplicaSet", "web-7d9f")],
                "labels": {"pod-template-hash": "7d9f"},
            },
            (("ReplicaSet", "web-7d9f"), ("Deployment", "web")),
        ),
        ({"ownerReferences": [owner("ReplicaSet", "by-hand")]}, (("ReplicaSet", "by-hand"),)),
        (
            {"ownerReferences": [owner("Job", "backup-28912345")]},
            (("Job", "backup-28912345"), ("CronJob", "backup")),
        ),
        ({"ownerReferences": [owner("Job", "once")]}, (("Job", "once"),)),
    ],
)
def test_whose_it_is(meta: dict[str, Any], workloads: tuple[tuple[str, str], ...]) -> None:
    assert decode(json.dumps(pod(**meta)).encode()).workloads == workloads


LIMITED = {"resources": {"limits": {"memory": "1Gi"}}}


def test_kills_are_those_of_running_containers_with_a_limit_of_their_own() -> None:
    def statuses(**reasons: str) -> list[dict[str, Any]]:
        return [
            {"name": name, "lastState": {"terminated": ended(reason)}}
            for name, reason in reasons.items()
        ]

    document = pod() | {
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "web", **LIMITED},
                {"name": "done", **LIMITED},
                {"name": "free"},
            ],
            "initContainers": [
                {"name": "mesh", "restartPolicy": "Always", **LIMITED},
                {"name": "migrate", **LIMITED},
            ],
        },
        "status": {
            "containerStatuses": statuses(web="OOMKilled", done="Completed", free="OOMKilled"),
            "initContainerStatuses": statuses(mesh="OOMKilled", migrate="OOMKilled"),
        },
    }
    found = decode(json.dumps(document).encode())
    assert sorted(found.kills, key=lambda one: one.container) == [
        OutOfMemoryKill(name, 1 << 30, 1793527200.0) for name in ("mesh", "web")
    ]
    limit = {"memory": 1 << 30}
    assert found.node == "n1"
    assert found.requests == {"web": limit, "done": limit, "free": {}, "mesh": limit}


def test_what_is_no_pod() -> None:
    with pytest.raises(ValueError, match="is not a valid pod"):
        decode(b'{"metadata": 7}')


def ended(reason: str) -> dict[str, Any]:
    return {"reason": reason, "finishedAt": "2026-11-01T10:00:00Z"}


@pytest.mark.parametrize(("phase", "started"), [("Pending", False), ("Running", True)])
def test_whether_its_containers_have_begun(phase: str, started: bool) -> None:
    assert decode(json.dumps(pod() | {"status": {"phase": phase}}).encode()).started is started
