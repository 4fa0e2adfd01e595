"""A rollout before a real API server, while its leaders are killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from typing import Any

from koord_demo.programs import console_script
from koord_model.times import rfc3339

from tests.apiserver.real_cluster import RealCluster
from tests.support.kube_apiserver import ADMIN
from tests.support.manager_program import NAMESPACE, QUICK, ManagerProgram
from tests.support.waiting import until

CONFIG, STATE = "slo-controller-config", "slo-controller-config-rollout"
NODES = [f"r{number}" for number in range(6)]
GUARDED = (*QUICK, "--feature-gates=RolloutGuard=true")


async def test_a_halt_outlives_leaders_that_are_killed(cluster: RealCluster) -> None:
    for name in NODES:
        cluster.ready_node(name, {"cpu": "8", "memory": "8Gi"}, {"pool": "web"})
    configure(cluster, "50%")
    first = await started(cluster, "m1")
    await until(lambda: len(canaries(cluster)) == 3, "canaries")
    chosen = canaries(cluster)
    for name in NODES:
        echo(cluster, name)
    await until(lambda: state(cluster).get("nodes", {}).get("echoed") == 3, "they have applied it")
    [version] = state(cluster)["history"]
    first.kill()

    harm(cluster, chosen)
    second = await started(cluster, "m2")
    await until(lambda: "paused" in state(cluster), "what the first has measured halts it")
    pause = state(cluster)["paused"]
    assert pause["version"] == version["version"]
    await until(lambda: len(events(cluster)) == 1, "an Event")
    configure(cluster, "100%")
    second.kill()

    third = await started(cluster, "m3")
    await until(lambda: third.leads, "it leads")
    await asyncio.sleep(12)  # a look, and more
    assert canaries(cluster) == chosen
    assert state(cluster)["paused"] == pause
    assert state(cluster)["history"] == [version]
    assert len(events(cluster)) == 1
    assert cluster.get("cm", CONFIG, "-n", NAMESPACE)["data"] == {"pykoord-config": entries("100%")}

    code, said = await asyncio.to_thread(ctl, cluster, "status")
    assert code == 0
    assert "paused by koord-manager" in said
    code, said = await asyncio.to_thread(ctl, cluster, "resume", "offload")
    assert code == 0, said
    await until(lambda: canaries(cluster) == set(NODES), "somebody wants it so")


async def started(cluster: RealCluster, name: str) -> ManagerProgram:
    return await cluster.started(name, *GUARDED)


def entries(canary: str) -> str:
    selector = {"matchLabels": {"pool": "web"}}
    strategies = {"memory_offload": {"mode": "on"}}
    entry = {"name": "offload", "nodeSelector": selector, "canary": canary}
    return json.dumps({"nodeStrategies": [{**entry, "strategies": strategies}]})


def configure(cluster: RealCluster, canary: str) -> None:
    patch = json.dumps(
        [{"op": "replace", "path": "/data", "value": {"pykoord-config": entries(canary)}}]
    )
    cluster.kubectl("patch", "cm", CONFIG, "-n", NAMESPACE, "--type=json", "-p", patch)


def section(cluster: RealCluster, name: str) -> dict[str, Any]:
    spec = cluster.get("nodeslo", name)["spec"]
    found: dict[str, Any] = (spec.get("extensions") or {}).get("pykoord") or {}
    return found


def canaries(cluster: RealCluster) -> set[str]:
    there = cluster.names("nodeslos")
    return {name for name in NODES if name in there and "strategies" in section(cluster, name)}


def echo(cluster: RealCluster, name: str) -> None:
    """Its koordlet says which version it has."""
    rollout = {**section(cluster, name)["rollout"], "evictions": 0, "restarts": 0}
    usage = {"resources": {"cpu": "1", "memory": "1Gi"}}
    metric = {"nodeUsage": usage, "systemUsage": usage}
    status = {
        "updateTime": rfc3339(time.time()),
        "nodeMetric": metric,
        "extensions": {"pykoord": {"rollout": rollout}},
    }
    cluster.status("nodemetric", name, status)


def state(cluster: RealCluster) -> dict[str, Any]:
    if STATE not in {one["metadata"]["name"] for one in configs(cluster)}:
        return {}
    data = cluster.get("cm", STATE, "-n", NAMESPACE)["data"]
    found: dict[str, Any] = json.loads(data["observed"]).get("offload", {})
    return found


def configs(cluster: RealCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("cm", "-n", NAMESPACE)["items"]
    return found


def harm(cluster: RealCluster, chosen: set[str]) -> None:
    """Write the state of a leader after half an hour in which canaries evicted."""
    pairs = [
        {
            "canary": mine,
            "control": other,
            "hours": {"evictions": 0.5},
            "with_entry": {"evictions": 9.0},
            "without": {"evictions": 0.0},
        }
        for mine, other in zip(sorted(chosen), sorted(set(NODES) - chosen), strict=True)
    ]
    observed = json.dumps({"offload": {**state(cluster), "pairs": pairs}})
    patch = json.dumps({"data": {"observed": observed}})
    cluster.kubectl("patch", "cm", STATE, "-n", NAMESPACE, "--type=merge", "-p", patch)


def events(cluster: RealCluster) -> list[dict[str, Any]]:
    found = cluster.get("events", "-n", NAMESPACE)["items"]
    return [one for one in found if one["reason"] == "RolloutPaused"]


def ctl(cluster: RealCluster, *words: str) -> tuple[int, str]:
    kubeconfig = cluster.server.kubeconfig("admin", ADMIN)
    command = [console_script("koordctl"), "rollout", *words, f"--kubeconfig={kubeconfig}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr
