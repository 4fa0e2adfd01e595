"""Reservations by a real API server: from waiting for a node until they are removed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_RESERVATION_ALLOCATED

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

NAMESPACE = "reserving"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "Reservation", "weight": 5000}]}},
            "pluginConfig": [{"name": "Reservation", "args": {"gcDurationSeconds": 4}}],
        }
    ],
}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster, json.dumps(CONFIG)) as made:
        yield made


def containers(cpus: str) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}}]


def reservation(name: str, app: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": containers("6")}},
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            **spec,
        },
    }


def pod(name: str, cpus: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers(cpus)},
    }


async def test_a_reservation_is_used_and_another_one_expires(
    cluster: RealCluster, scheduler: SchedulerProgram
) -> None:
    cluster.namespace(NAMESPACE)
    cluster.ready_node("r1", {"cpu": "8", "memory": "16Gi", "pods": "110"})
    await asyncio.to_thread(scheduler.start)
    await until(lambda: scheduler.ready, "ready")
    await until(lambda: scheduler.leads, "a leader")

    def found(kind: str, name: str, *more: str) -> Any:
        listed = cluster.get(kind, *more)["items"]
        return next((one for one in listed if one["metadata"]["name"] == name), None)

    def phase(name: str) -> Any:
        one = found("reservations", name)
        return None if one is None else one["status"].get("phase")

    cluster.apply(reservation("for-web", "web"))
    await until(lambda: phase("for-web") == "Available", "room")
    cluster.apply(pod("other", "4"), reservation("late", "db", ttl="5s"))
    cluster.apply(pod("web", "4"))
    await until(lambda: phase("for-web") == "Succeeded", "an owner")
    web, used = found("pods", "web", "-n", NAMESPACE), found("reservations", "for-web")
    assert web["spec"]["nodeName"] == "r1"
    assert json.loads(web["metadata"]["annotations"][ANNOTATION_RESERVATION_ALLOCATED]) == {
        "name": "for-web",
        "uid": used["metadata"]["uid"],
    }
    assert used["status"]["allocated"] == {"cpu": "4"}
    [owner] = used["status"]["currentOwners"]
    assert (owner["name"], owner["uid"]) == ("web", web["metadata"]["uid"])
    # What is left of one that was for one pod is free again.
    await until(lambda: found("pods", "other", "-n", NAMESPACE)["spec"].get("nodeName"), "its room")
    await until(lambda: phase("late") == "Failed", "its end")
    await until(
        lambda: phase("late") is None and phase("for-web") is None, "both removed", seconds=60
    )
