"""Cost of custom.metrics.k8s.io with 10,000 nodes of ten pods each, and five reports of each kept.

Requests go over HTTP on loopback, without TLS and authentication; the client is in the same
process, so its share is in the figures, too. An autoscaler's request selects ten of a namespace's
400 pods.

``python -m bench.custom_metrics`` measures and writes bench/results/custom_metrics.md.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import time
from pathlib import Path

import aiohttp
from aiohttp import web
from koord_manager.metrics_apis.core.catalogue import NodeCapacity
from koord_manager.metrics_apis.core.pods import PodIndex, read_pod
from koord_manager.metrics_apis.custom_metrics import CustomMetricsGroup
from koord_manager.metrics_apis.sources import UsageSources
from koord_manager.node_metric.core.store import NodeMetricStore
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.pod import Container, Pod
from koord_model.times import rfc3339
from koordlet.metrics_reporter.documents.recent_usage import RecentUsage
from koordlet.states_informer.state.pod_inventory import PodRecord

from bench import report
from bench.report import Measure

NODES, PODS, NAMESPACES, APPS = 10_000, 10, 250, 40
REPORTS, INTERVAL = 6, 60.0
SETTINGS = {"nodes": NODES, "pods": NODES * PODS, "reports kept of each node": REPORTS - 1}
_BEGAN = 1_790_000_000.0
_REQUESTS = 300
_BASE = "/apis/custom.metrics.k8s.io/v1beta2"
_ONE_APP = "labelSelector=app%3Dapp-3"


class _Clock:
    now = _BEGAN


def _pod(number: int) -> tuple[str, str]:
    """Namespace and name; pods of an app are on different nodes."""
    return f"namespace-{number % NAMESPACES:03d}", f"app-{_app(number)}-7f9c8d5b6f-{number:06d}"


def _app(number: int) -> int:
    return number // NAMESPACES % APPS


def _status(node: int, turn: int) -> bytes:
    pods = []
    for number in range(node * PODS, (node + 1) * PODS):
        namespace, name = _pod(number)
        amounts = {"cpu": f"{100 + number % 900 + turn}m", "memory": f"{60_000_000 + number}"}
        ours = {"pykoord": {"delays": {"sched_wait": 1.5 + turn, "disk_wait": 0.5}}}
        pods.append(
            {
                "namespace": namespace,
                "name": name,
                "podUsage": {"resources": amounts},
                "extensions": ours,
            }
        )
    usage = {"resources": {"cpu": "12500m", "memory": "64Gi"}}
    updated = rfc3339(_BEGAN + turn * INTERVAL)
    return json.dumps(
        {"updateTime": updated, "nodeMetric": {"nodeUsage": usage}, "podsMetric": pods}
    ).encode()


def _index() -> PodIndex:
    index = PodIndex()
    for number in range(NODES * PODS):
        namespace, name = _pod(number)
        labels = {"app": f"app-{_app(number)}", "pod-template-hash": "7f9c8d5b6f"}
        created = rfc3339(_BEGAN - 3600)
        meta = {"name": name, "namespace": namespace, "labels": labels}
        spec = {
            "nodeName": f"node-{number // PODS:05d}",
            "containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}],
        }
        raw = json.dumps({"metadata": meta | {"creationTimestamp": created}, "spec": spec})
        index.changed("", None, read_pod(raw.encode()))
    return index


def _resident() -> float:
    """MiB of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _sources(index: PodIndex, clock: _Clock) -> UsageSources:
    store, strategy = NodeMetricStore(), ColocationStrategy()
    store.begin(1)
    return UsageSources(
        store,
        lambda: True,
        lambda: index,
        lambda _node: {},
        lambda _node: strategy,
        lambda _node: NodeCapacity(64.0, 256.0 * 2**30),
        clock=lambda: clock.now,
        monotonic=lambda: clock.now,
    )


def _fill(sources: UsageSources, clock: _Clock) -> tuple[float, float]:
    """CPU seconds of a report, and MiB of all that is kept of reports."""
    for node in range(NODES):
        sources.store.put(f"node-{node:05d}", _status(node, 0), _BEGAN, _BEGAN)
    before, spent = _resident(), 0.0
    for node in range(NODES):
        sources.samples(f"node-{node:05d}")  # nothing is kept of nodes that nobody asks about
    for turn in range(REPORTS):
        clock.now = _BEGAN + turn * INTERVAL
        for node in range(NODES):
            status = _status(node, turn)
            began = time.process_time()
            sources.remember(f"node-{node:05d}", status, clock.now)
            spent += time.process_time() - began
    return spent / (NODES * REPORTS), _resident() - before


async def _ask(url: str, times: int) -> tuple[list[float], int, int]:
    """CPU seconds of each request, values and bytes of the last answer."""
    spent = []
    async with aiohttp.ClientSession() as session:
        for _ in range(times):
            began = time.process_time()
            async with session.get(url) as answer:
                body = await answer.read()
            spent.append(time.process_time() - began)
    return spent, len(json.loads(body)["items"]), len(body)


async def _answers(sources: UsageSources) -> list[Measure]:
    app = web.Application()
    CustomMetricsGroup(sources).add_to(app.router)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}{_BASE}"
    shop = f"{url}/namespaces/namespace-007/pods/*"
    made: list[Measure] = []
    for name, path, times, target in (
        ("ten of 400 pods, newest points too", f"{shop}/pod_cpu_usage?{_ONE_APP}", _REQUESTS, 10.0),
        (
            "ten of 400 pods, maximum",
            f"{shop}/pod_cpu_load_1min_agg_max?{_ONE_APP}",
            _REQUESTS,
            10.0,
        ),
        ("all 400 pods, 99th percentile", f"{shop}/pod_cpu_usage_agg_p99", 50, None),
        ("all nodes", f"{url}/nodes/*/node_cpu_usage_agg_avg", 5, None),
    ):
        spent, values, size = await _ask(path, times)
        median = statistics.median(spent)
        made += [
            _measure(
                f"{name}: {values} values", "CPU ms", 1000 * median, target, _interval(spent, 1000)
            ),
            _measure(f"{name}: answer", "KiB", size / 1024),
        ]
    ten = made[2].ours
    made.append(_measure("requests of autoscalers on one core", "/s", 1000 / ten))
    await runner.cleanup()
    return made


def _interval(spent: list[float], factor: float) -> tuple[float, float]:
    low, high = report.median_interval(spent)
    return low * factor, high * factor


def _measure(
    name: str,
    unit: str,
    ours: float,
    target: float | None = None,
    interval: tuple[float, float] | None = None,
) -> Measure:
    return Measure(name, unit, ours, "", None, target, interval=interval)


def _recent_bytes(containers: int) -> int:
    """Bytes that a pod's usage of the last minute adds to a report (koordlet's RecentUsage)."""
    pod = Pod("p", "n", "u")
    inside = {f"c{number}": Container(pod, f"name-{number}", "") for number in range(containers)}
    keys: list[tuple[str, ...]] = [("u",), *(("u", key) for key in inside)]
    usage = RecentUsage(
        dict.fromkeys(keys, 0.7312), dict.fromkeys(keys, 734003200.0), dict.fromkeys(keys, 12.53)
    )
    rows = usage.rows(PodRecord(pod, containers=inside))
    return len(json.dumps({"recent": rows}, separators=(",", ":"))) - 1  # braces are there


def measure() -> list[Measure]:
    clock = _Clock()
    before = _resident()
    index = _index()
    of_pods = _resident() - before
    sources = _sources(index, clock)
    each, kept = _fill(sources, clock)
    share = 100 * each * NODES / INTERVAL
    figures = [
        _measure("names, labels, containers, limits of pods", "MiB", of_pods),
        _measure("samples of the last minutes", "MiB", kept, 100.0),
        _measure("report of ten pods, more than without the gate", "CPU µs", 1e6 * each),
        _measure("share of a core at a report a minute of each node", "%", share, 10.0),
    ]
    figures += [
        _measure(f"recent usage of a pod of {count} in its report", "bytes", _recent_bytes(count))
        for count in (1, 2)
    ]
    return figures + asyncio.run(_answers(sources))


def main() -> None:
    measures = measure()
    print(report.table(measures))
    report.write(measures, "custom_metrics", SETTINGS)


if __name__ == "__main__":
    main()
