"""Metrics APIs behind a real API server: kubectl top, and real HorizontalPodAutoscalers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from koord_model.times import rfc3339

from tests.apiserver.real_cluster import ROOT, RealCluster, pod
from tests.apiserver.test_metrics_api import FLAGS, Link, leading, reporting
from tests.chaos_whole.kubernetes import ControllerManager
from tests.support.kube_apiserver import find_program
from tests.support.manager_program import NAMESPACE
from tests.support.waiting import until

API = "v1beta1.metrics.k8s.io"
AMOUNTS = {"cpu": "10", "memory": "10Gi", "pods": "110"}
GATED = (*FLAGS, "--feature-gates=ResourceMetricsAPI=true")
ALL_GATED = (
    *FLAGS,
    "--feature-gates=ResourceMetricsAPI=true,CustomMetricsAPI=true,ExternalMetricsAPI=true",
)
LOAD, FORECAST = (
    yaml.safe_load(block)["spec"]["metrics"][0]
    for block in re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/manager/custom-metrics.md").read_text(), re.DOTALL
    )
)
"""Those of the autoscalers on the operators' page."""
CONTROLLERS = {
    "controllers": "deployment-controller,replicaset-controller,"
    "horizontal-pod-autoscaler-controller",
    "horizontal-pod-autoscaler-sync-period": "1s",
    "horizontal-pod-autoscaler-cpu-initialization-period": "1s",
    "horizontal-pod-autoscaler-initial-readiness-delay": "1s",
}


def usage(cores: float) -> dict[str, Any]:
    return {"resources": {"cpu": f"{cores * 1000:.0f}m", "memory": "64Mi"}}


async def report(link: Link, cores: float, pods: Iterable[str] = (), wait: float = 0) -> None:
    """Send a koordlet's report of pods that use so much each, and wait so long for it (ms/s)."""
    ours = {"extensions": {"pykoord": {"delays": {"sched_wait": wait}}}}
    status = {
        "updateTime": rfc3339(time.time()),
        "nodeMetric": {"nodeUsage": usage(2)},
        "podsMetric": [
            {"namespace": "shop", "name": name, "podUsage": usage(cores), **ours} for name in pods
        ],
    }
    await link.send(json.dumps(status).encode(), time.time(), 20)


def top(cluster: RealCluster, *words: str) -> list[list[str]]:
    try:
        return [line.split() for line in cluster.kubectl("top", *words).splitlines()[1:]]
    except RuntimeError:
        return []


def run_pods(cluster: RealCluster) -> list[str]:
    """Those that use something; they run as a kubelet would have them."""
    found = cluster.get("pods", "-n", "shop", "-l", "app!=sql")["items"]
    began = rfc3339(time.time() - 60)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": began}
    status = {"phase": "Running", "startTime": began, "conditions": [ready]}
    for one in found:
        cluster.status("pod", one["metadata"]["name"], status, "shop")
    return [one["metadata"]["name"] for one in found]


def replicas(cluster: RealCluster, name: str) -> int:
    return int(cluster.get("deployment", name, "-n", "shop")["spec"]["replicas"])


@asynccontextmanager
async def controllers(cluster: RealCluster) -> AsyncIterator[None]:
    program = ControllerManager(cluster.server, CONTROLLERS)
    await asyncio.to_thread(program.start)
    try:
        yield
    finally:
        program.close()


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}


def install_shop(cluster: RealCluster, name: str, metric: dict[str, Any]) -> None:
    """A Deployment whose pods ask for a core, and an autoscaler that goes by a metric."""
    cluster.namespace("shop")
    template = pod(name, "shop", {"nodeName": "n1"}, {"requests": {"cpu": "1"}}, app=name)
    selector = {"matchLabels": {"app": name}}
    inside = {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    bounds = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4, "metrics": [metric]}
    named = {"name": name, "namespace": "shop"}
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


def install_forecast(cluster: RealCluster) -> None:
    """Katalyst's definition of descriptors, as far as it goes here, and one with a forecast."""
    whatever = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    names = {
        "plural": "serviceprofiledescriptors",
        "singular": "serviceprofiledescriptor",
        "kind": "ServiceProfileDescriptor",
    }
    group = "workload.katalyst.kubewharf.io"
    spec = {"group": group, "scope": "Namespaced", "names": names}
    spec |= {"versions": [version | {"schema": {"openAPIV3Schema": whatever}}]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    cluster.apply(definition | {"metadata": {"name": f"{names['plural']}.{group}"}, "spec": spec})
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    containers = [{"name": "total", "usage": {"cpu": "2500m"}}]
    item = {"timestamp": rfc3339(time.time() - 60), "window": "1m", "containers": containers}
    scope = {"aggregator": "avg", "scope": "ResourcePortraitIndicatorPlugin", "items": [item]}
    head = {"apiVersion": f"{group}/v1alpha1", "kind": names["kind"]}
    named = {"metadata": {"name": "web", "namespace": "shop"}}
    cluster.apply(head | named | {"status": {"aggMetrics": [scope]}})


@pytest.mark.skipif(
    find_program("kube-controller-manager") is None, reason="needs kube-controller-manager"
)
async def test_autoscalers_go_by_it_through_the_death_of_the_leader(
    cluster: RealCluster,
) -> None:
    for name in ("n1", "n2"):
        cluster.ready_node(name, AMOUNTS)
    install_shop(cluster, "web", {"type": "Resource", "resource": CPU})
    install_shop(cluster, "api", LOAD)
    install_shop(cluster, "sql", FORECAST)
    install_forecast(cluster)
    first = await leading(cluster, "m1", *ALL_GATED)
    async with controllers(cluster), reporting(cluster) as (link, other):
        await until(lambda: len(run_pods(cluster)) == 2, "the first pods run")
        await report(link, 1.5, run_pods(cluster))
        await until(lambda: top(cluster, "nodes"), "kubectl top nodes")
        assert top(cluster, "nodes", "n1") == [["n1", "2000m", "20%", "64Mi", "0%"]]
        (line,) = top(cluster, "pods", "-n", "shop", "-l", "app=web")
        assert line[1:] == ["1500m", "64Mi"]
        await until(
            lambda: replicas(cluster, "web") == 3, "1.5 cores of 1 are three times the half"
        )
        await until(lambda: replicas(cluster, "api") == 3, "a load of 1.5 is, too")
        await until(lambda: replicas(cluster, "sql") == 3, "2.5 cores are more than two of 1")
        second = await cluster.started("m2", *ALL_GATED)
        first.kill()
        await until(lambda: second.leads, "the other one leads")
        assert [replicas(cluster, name) for name in ("web", "api", "sql")] == [3, 3, 3]
        await until(lambda: len(run_pods(cluster)) == 6, "the others run")
        await report(other, 0)
        await report(link, 0.6, run_pods(cluster), wait=500)
        await until(lambda: replicas(cluster, "api") == 4, "as many as there may be")
        await until(lambda: replicas(cluster, "web") == 4, "as many as there may be")
        assert len(top(cluster, "pods", "-n", "shop", "-l", "app=web")) == 3
        path = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/pod_cpu_usage"
        found = json.loads(cluster.kubectl("get", "--raw", f"{path}?labelSelector=app%3Dapi"))
        assert [(item["value"], item["window"]) for item in found["items"]] == [("600m", 300)] * 3


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
