"""koord-scheduler beside a real API server, with the rights and priorities of deploy/."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator

import pytest
from koord_demo.programs import console_script

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster, node, pod
from tests.support.manager_program import NAMESPACE
from tests.support.scheduler_program import SchedulerProgram
from tests.support.waiting import until

_DISPATCHED = re.compile(
    r"^apiserver_flowcontrol_dispatched_requests_total"
    r'\{flow_schema="(koord-scheduler[\w-]*)",priority_level="([\w-]+)"\} (\d+)$',
    re.MULTILINE,
)
# Nobody here says that a node is ready.
_ANYWHERE = {"tolerations": [{"operator": "Exists"}]}


@pytest.fixture
def scheduler(cluster: RealCluster) -> Iterator[SchedulerProgram]:
    with deployed_scheduler(cluster) as made:
        made.port = 10251  # where koordctl looks for it
        made.start()
        yield made
        assert made.stop() == 0, made.said


@pytest.mark.usefixtures("scheduler")
async def test_pods_get_their_nodes(cluster: RealCluster) -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    cluster.apply(node("n1"))
    cluster.status("node", "n1", {"capacity": amounts, "allocatable": amounts})
    cluster.namespace("shop")
    for name, cpu in (("fits", "1"), ("waits", "8")):
        cluster.apply(pod(name, "shop", _ANYWHERE, {"requests": {"cpu": cpu}}))
    await until(lambda: _reasons(cluster, "fits") == {"Scheduled"}, "its node and an Event")
    await until(lambda: _reasons(cluster, "waits") == {"FailedScheduling"}, "an Event")
    assert cluster.get("pod", "fits", "-n", "shop")["spec"]["nodeName"] == "n1"
    await until(lambda: _condition(cluster, "waits") == ("False", "Unschedulable"), "a condition")
    lease = cluster.get("lease", "koord-scheduler", "-n", NAMESPACE)
    assert lease["spec"]["holderIdentity"].startswith("s1_")
    metrics = cluster.kubectl("get", "--raw", "/metrics")
    levels = {schema: level for schema, level, count in _DISPATCHED.findall(metrics) if int(count)}
    assert levels == {
        "koord-scheduler": "workload-high",
        "koord-scheduler-leader-election": "leader-election",
    }


async def test_somebody_asks_why(cluster: RealCluster, scheduler: SchedulerProgram) -> None:
    """As a user with the role for it, of the leader's pod, through the API server."""
    cluster.apply(node("n1"))
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    cluster.status("node", "n1", {"capacity": amounts, "allocatable": amounts})
    cluster.namespace("shop")
    for name, cpu in (("fits", "1"), ("waits", "8")):
        cluster.apply(pod(name, "shop", _ANYWHERE, {"requests": {"cpu": cpu}}))
    await until(lambda: _reasons(cluster, "waits") == {"FailedScheduling"}, "an Event")
    meta = {"name": "s1", "namespace": NAMESPACE}
    spec = cluster.get("deployment", "koord-scheduler", "-n", NAMESPACE)["spec"]["template"]["spec"]
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    addresses = {"podIP": scheduler.host, "podIPs": [{"ip": scheduler.host}]}
    cluster.status("pod", "s1", {"phase": "Running", **addresses}, NAMESPACE)
    cluster.kubectl("create", "sa", "curious", "-n", NAMESPACE)
    file = cluster.server.kubeconfig("curious", cluster.token("curious"))

    def ask(*about: str) -> tuple[int, str, str]:
        command = [console_script("koordctl"), "why", *about, f"--kubeconfig={file}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    code, _, said = await asyncio.to_thread(ask, "pending", "shop/waits")
    assert code == 1
    assert 'leases.coordination.k8s.io "koord-scheduler" is forbidden' in said
    cluster.kubectl(
        *("create", "rolebinding", "curious", "-n", NAMESPACE),
        *("--role=koordinator-why", f"--serviceaccount={NAMESPACE}:curious"),
    )
    await until(lambda: ask("pending", "shop/waits")[0] == 0, "the role counts")
    assert "  n1 lacks 5 cpu" in ask("pending", "shop/waits")[1].splitlines()
    assert ask("scheduled", "shop/fits")[1].startswith("shop/fits is on n1\n")


def _reasons(cluster: RealCluster, name: str) -> set[str]:
    """Of the Events about a pod."""
    events = cluster.get("events", "-n", "shop")["items"]
    return {one["reason"] for one in events if one["involvedObject"]["name"] == name}


def _condition(cluster: RealCluster, name: str) -> tuple[str, str]:
    """Status and reason of its PodScheduled."""
    conditions = cluster.get("pod", name, "-n", "shop")["status"].get("conditions", [])
    found = next((one for one in conditions if one["type"] == "PodScheduled"), {})
    return found.get("status", ""), found.get("reason", "")
