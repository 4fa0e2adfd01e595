"""One trace of a pod's way: a real API server, manager, scheduler, proxy and koordlet.

Doubles are the collector, and the runtime behind the proxy; what a kubelet does is done by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from koord_model.keys import ANNOTATION_TRACEPARENT

from tests.apiserver.deployed_scheduler import deployed_scheduler
from tests.apiserver.real_cluster import RealCluster, pod
from tests.support.cri import batch_pod_config, run_pod
from tests.support.embedded import EmbeddedRuntime
from tests.support.manager_program import QUICK
from tests.support.processes import until as until_true
from tests.support.proxy import Koordlet, Proxy
from tests.support.trace_collector import TraceCollector
from tests.support.waiting import until

_EVERY = "--tracing-sampling-rate-per-million=1000000"
_CLUSTER = {"webhook mutate-pod", "schedule", "queue", "decide", "bind"}
_NODE = {"RunPodSandbox", "CreateContainer", "hooks", "hook PreCreateContainer"}


async def test_a_pods_way_is_one_trace(cluster: RealCluster) -> None:
    near = cluster.server.network.near
    with TraceCollector(near) as collector:
        flag = f"--tracing-endpoint={collector.address}"
        await cluster.started("m1", *QUICK, flag, _EVERY)
        cluster.namespace("shop")
        cluster.ready_node("n1", {"cpu": "4", "memory": "8Gi", "pods": "110"})
        with deployed_scheduler(cluster, "", flag) as scheduler:
            scheduler.start()
            await until(lambda: scheduler.ready and scheduler.leads, "a leader")
            made = await _bound(cluster)
            trace = made["metadata"]["annotations"][ANNOTATION_TRACEPARENT].split("-")[1]
            with _running(cluster, made, flag):
                await until(lambda: collector.names(trace) >= _CLUSTER | _NODE, "all spans")
    spans = [span for span in collector.spans if span.trace == trace]
    (root,) = (span for span in spans if not span.parent)
    assert (root.name, root.service) == ("webhook mutate-pod", "koord-manager")
    by_id = {span.id: span for span in spans}
    assert all(span.parent in by_id for span in spans if span is not root)
    assert {span.service for span in spans} == {
        *("koord-manager", "koord-scheduler", "koordlet", "koord-runtime-proxy")
    }
    schedule = next(span for span in spans if span.name == "schedule")
    steps = [span for span in spans if by_id.get(span.parent) is schedule]
    assert [step.name for step in sorted(steps, key=lambda step: step.began)] == [
        *("queue", "decide", "bind")
    ]
    assert schedule.attributes["k8s.node.name"] == "n1"
    assert {span.attributes.get("k8s.pod.name") for span in spans} <= {
        made["metadata"]["name"],
        None,
    }


async def _bound(cluster: RealCluster) -> dict[str, Any]:
    """A pod that the webhook was asked about, and that has a node by now."""
    number = iter(range(1000))
    found: list[dict[str, Any]] = []

    def traced() -> bool:
        name = f"traced-{next(number)}"
        given = json.dumps(pod(name, "shop", {}, {"requests": {"cpu": "1m"}}))
        cluster.kubectl("create", "-f", "-", stdin=given)
        found.append(cluster.get("pod", name, "-n", "shop"))
        return ANNOTATION_TRACEPARENT in found[-1]["metadata"].get("annotations", {})

    await until(traced, "the API server asks the webhook")
    name = found[-1]["metadata"]["name"]
    await until(lambda: "nodeName" in cluster.get("pod", name, "-n", "shop")["spec"], "its node")
    return found[-1]


@contextmanager
def _running(cluster: RealCluster, made: dict[str, Any], flag: str) -> Iterator[None]:
    """The pod runs: what the kubelet has the runtime do with it, through a proxy."""
    folder, metadata = cluster.server.folder, made["metadata"]
    plan = batch_pod_config(metadata["name"], namespace="shop", annotations=metadata["annotations"])
    with (
        EmbeddedRuntime(folder) as runtime,
        Koordlet(folder, folder / "hookserver.d", flag) as koordlet,
        Proxy(folder, runtime.address, flag) as proxy,
        proxy.cri() as cri,
    ):
        until_true(koordlet.registration.exists)
        proxy.wait_for_server("koordlet")
        run_pod(cri, plan)
        yield
