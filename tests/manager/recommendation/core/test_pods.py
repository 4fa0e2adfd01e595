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


def test_kills_for_a_limit_of_its_own() -> None:
    document = pod() | {
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "web", "resources": {"limits": {"memory": "1Gi"}}},
                {"name": "free"},
            ],
        },
        "status": {
            "containerStatuses": [
                {"name": "web", "lastState": {"terminated": killed("2026-11-01T10:00:00Z")}},
                {"name": "free", "lastState": {"terminated": killed("2026-11-01T10:00:00Z")}},
            ]
        },
    }
    found = decode(json.dumps(document).encode())
    assert found.kills == (OutOfMemoryKill("web", 1 << 30, 1793527200.0),)
    assert found.node == "n1"
    assert found.requests == {"web": {"memory": 1 << 30}, "free": {}}


def test_an_end_of_another_kind_is_no_kill() -> None:
    ended = {"reason": "Completed", "finishedAt": "2026-11-01T10:00:00Z"}
    document = pod() | {
        "spec": {"containers": [{"name": "web", "resources": {"limits": {"memory": "1Gi"}}}]},
        "status": {"containerStatuses": [{"name": "web", "lastState": {"terminated": ended}}]},
    }
    assert decode(json.dumps(document).encode()).kills == ()


def test_what_is_no_pod() -> None:
    with pytest.raises(ValueError, match="is no pod"):
        decode(b'{"metadata": 7}')


def killed(at: str) -> dict[str, Any]:
    return {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}


def test_what_stays_beside_the_others_is_a_container_too() -> None:
    limited = {"resources": {"limits": {"memory": "1Gi"}}}
    document = pod() | {
        "spec": {
            "initContainers": [
                {"name": "mesh", "restartPolicy": "Always", **limited},
                {"name": "migrate", **limited},
            ],
            "containers": [{"name": "web"}],
        },
        "status": {
            "phase": "Running",
            "initContainerStatuses": [
                {"name": name, "lastState": {"terminated": killed("2026-11-01T10:00:00Z")}}
                for name in ("mesh", "migrate")
            ],
        },
    }
    found = decode(json.dumps(document).encode())
    assert found.requests == {"web": {}, "mesh": {"memory": 1 << 30}}
    assert [one.container for one in found.kills] == ["mesh"]


@pytest.mark.parametrize(("phase", "started"), [("Pending", False), ("Running", True)])
def test_whether_its_containers_have_begun(phase: str, started: bool) -> None:
    assert decode(json.dumps(pod() | {"status": {"phase": phase}}).encode()).started is started
