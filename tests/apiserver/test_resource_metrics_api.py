"""metrics.k8s.io behind a real API server: kubectl top, and a real HorizontalPodAutoscaler."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_model.times import rfc3339

from tests.apiserver.real_cluster import RealCluster, pod
from tests.apiserver.test_metrics_api import FLAGS, Link, leading, reporting
from tests.chaos_whole.kubernetes import ControllerManager
from tests.support.kube_apiserver import find_program
from tests.support.manager_program import NAMESPACE
from tests.support.waiting import until

API = "v1beta1.metrics.k8s.io"
AMOUNTS = {"cpu": "10", "memory": "10Gi", "pods": "110"}
GATED = (*FLAGS, "--feature-gates=ResourceMetricsAPI=true")
CONTROLLERS = {
    "controllers": "deployment-controller,replicaset-controller,"
    "horizontal-pod-autoscaler-controller",
    "horizontal-pod-autoscaler-sync-period": "1s",
    "horizontal-pod-autoscaler-cpu-initialization-period": "1s",
    "horizontal-pod-autoscaler-initial-readiness-delay": "1s",
}


def usage(cores: float) -> dict[str, Any]:
    return {"resources": {"cpu": f"{cores * 1000:.0f}m", "memory": "64Mi"}}


async def report(link: Link, cores: float, pods: Iterable[str] = ()) -> None:
    """Send a koordlet's report of pods that use so much each."""
    status = {
        "updateTime": rfc3339(time.time()),
        "nodeMetric": {"nodeUsage": usage(2)},
        "podsMetric": [
            {"namespace": "shop", "name": name, "podUsage": usage(cores)} for name in pods
        ],
    }
    await link.send(json.dumps(status).encode(), time.time(), 20)


def top(cluster: RealCluster, *words: str) -> list[list[str]]:
    try:
        return [line.split() for line in cluster.kubectl("top", *words).splitlines()[1:]]
    except RuntimeError:
        return []


def run_pods(cluster: RealCluster) -> list[str]:
    """Those of the Deployment, which run as a kubelet would have them."""
    found = cluster.get("pods", "-n", "shop", "-l", "app=web")["items"]
    began = rfc3339(time.time() - 60)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": began}
    status = {"phase": "Running", "startTime": began, "conditions": [ready]}
    for one in found:
        cluster.status("pod", one["metadata"]["name"], status, "shop")
    return [one["metadata"]["name"] for one in found]


def replicas(cluster: RealCluster) -> int:
    return int(cluster.get("deployment", "web", "-n", "shop")["spec"]["replicas"])


@asynccontextmanager
async def controllers(cluster: RealCluster) -> AsyncIterator[None]:
    program = ControllerManager(cluster.server, CONTROLLERS)
    await asyncio.to_thread(program.start)
    try:
        yield
    finally:
        program.close()


def install_shop(cluster: RealCluster) -> None:
    """A Deployment whose pods ask for a core, to use half of it."""
    cluster.namespace("shop")
    template = pod("web", "shop", {"nodeName": "n1"}, {"requests": {"cpu": "1"}}, app="web")
    selector = {"matchLabels": {"app": "web"}}
    inside = {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metrics = [{"type": "Resource", "resource": cpu}]
    bounds = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4, "metrics": metrics}
    named = {"name": "web", "namespace": "shop"}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named,
            "spec": {"replicas": 1, "selector": selector, "template": inside},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": named,
            "spec": bounds,
        },
    )


@pytest.mark.skipif(
    find_program("kube-controller-manager") is None, reason="needs kube-controller-manager"
)
async def test_an_autoscaler_goes_by_it_through_the_death_of_the_leader(
    cluster: RealCluster,
) -> None:
    for name in ("n1", "n2"):
        cluster.ready_node(name, AMOUNTS)
    install_shop(cluster)
    first = await leading(cluster, "m1", *GATED)
    async with controllers(cluster), reporting(cluster) as (link, other):
        await until(lambda: run_pods(cluster), "the first pod runs")
        await report(link, 1.5, run_pods(cluster))
        await until(lambda: top(cluster, "nodes"), "kubectl top nodes")
        assert top(cluster, "nodes", "n1") == [["n1", "2000m", "20%", "64Mi", "0%"]]
        (line,) = top(cluster, "pods", "-A")
        assert (line[0], line[2:]) == ("shop", ["1500m", "64Mi"])
        await until(lambda: replicas(cluster) == 3, "1.5 cores of 1 are three times the half")
        second = await cluster.started("m2", *GATED)
        first.kill()
        await until(lambda: second.leads, "the other one leads")
        assert replicas(cluster) == 3
        await until(lambda: len(run_pods(cluster)) == 3, "the others run")
        await report(other, 0)
        await report(link, 0.9, run_pods(cluster))
        await until(lambda: replicas(cluster) == 4, "as many as there may be")
        assert len(top(cluster, "pods", "-n", "shop", "-l", "app=web")) == 3


async def test_somebody_elses_registration_stays(cluster: RealCluster) -> None:
    service = {"name": "metrics-server", "namespace": "kube-system", "port": 443}
    spec = {"group": "metrics.k8s.io", "version": "v1beta1", "service": service}
    spec |= {"groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True}
    theirs = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    cluster.kubectl("delete", "apiservice", API, "--ignore-not-found")
    cluster.apply(theirs | {"metadata": {"name": API}, "spec": spec})
    before = cluster.get("apiservice", API)["spec"]
    manager = await leading(cluster, "m1", *GATED)
    events = ("events", "-n", "default", "--field-selector=reason=APIServiceTaken")
    await until(lambda: cluster.get(*events)["items"], "the Event")
    assert "belongs to kube-system/metrics-server and is left alone" in manager.said
    assert cluster.get("apiservice", API)["spec"] == before
    manager.close()
    again = await leading(cluster, "m2", *FLAGS)
    assert again.leads
    assert cluster.get("apiservice", API)["spec"] == before


async def test_with_the_gate_off_our_registration_goes(cluster: RealCluster) -> None:
    cluster.kubectl("delete", "apiservice", API, "--ignore-not-found")
    manager = await leading(cluster, "m1", *GATED)
    await until(lambda: API in cluster.names("apiservices"), "it is registered")
    manager.close()
    await leading(cluster, "m2", *FLAGS)
    await until(lambda: API not in cluster.names("apiservices"), "it is not any more")
    assert cluster.get("service", "koordinator-manager-leader", "-n", NAMESPACE)
