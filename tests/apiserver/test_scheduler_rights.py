"""koord-scheduler beside a real API server, with the rights and priorities of deploy/."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.apiserver.real_cluster import RealCluster, node, pod
from tests.support.manager_program import NAMESPACE
from tests.support.scheduler_program import QUICK, SchedulerProgram
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
    kubeconfig = cluster.server.kubeconfig("s1", cluster.token("koord-scheduler"))
    network = cluster.server.network
    made = SchedulerProgram(
        *("s1", cluster.server.folder, kubeconfig, *QUICK),
        host=network.address,
        inside=network.inside([]),
    )
    made.start()
    yield made
    assert made.stop() == 0, made.said
    assert "Traceback" not in made.said
    assert "forbidden" not in made.said.lower()


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


def _reasons(cluster: RealCluster, name: str) -> set[str]:
    """Of the Events about a pod."""
    events = cluster.get("events", "-n", "shop")["items"]
    return {one["reason"] for one in events if one["involvedObject"]["name"] == name}


def _condition(cluster: RealCluster, name: str) -> tuple[str, str]:
    """Status and reason of its PodScheduled."""
    conditions = cluster.get("pod", name, "-n", "shop")["status"].get("conditions", [])
    found = next((one for one in conditions if one["type"] == "PodScheduled"), {})
    return found.get("status", ""), found.get("reason", "")
