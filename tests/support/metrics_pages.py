"""Page of each program at /metrics after all has happened once: its real registries, filled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from koord_devices.core.accelerator import Accelerator
from koord_devices.core.inventory import VendorState
from koord_devices.pages import metrics as device_metrics
from koord_devices.prober import Answer
from koord_devices.report import Report
from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.planning.desired_values import Target
from koord_host.planning.jobs import InlineJobs, Job, JobKey
from koord_host.planning.outcomes import Outcome, Result, Round
from koord_kube.core.evictions import EvictionResult
from koord_kube.reconcile_loop import ReconcileLoop
from koord_manager.node_backstop.controller import BackstopFigures
from koord_manager.node_metric.metrics import NodeMetricMetrics
from koord_manager.program.metrics import ManagerMetrics, ManagerStatus
from koord_model.node_info import SchedulableDevice
from koord_model.patch import Conflict, Patch
from koord_proxy.metrics import Gauges, Metrics
from koord_serving.admission.metrics import AdmissionOutcome, WebhookMetrics
from koordlet.agent.resource_plugins import ResourcePluginMetrics
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.resource_plugins.allocation_store import AllocationStore
from koordlet.resource_plugins.plugins import ResourcePlugins
from koordlet.runtime_hooks.hook_metrics import (
    HookMetrics,
    JobMetrics,
    NriMetrics,
    ReconcileMetrics,
)
from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.decided import busy_decisions
from tests.support.descheduler_metrics import full_descheduler_registry
from tests.support.observed import NOW, full_node
from tests.support.scheduler_metrics import full_registry


def metrics_pages() -> Mapping[str, str]:
    """Texts of the metrics that only one program has, by program."""
    registries = {
        "koord-runtime-proxy": _proxy(),
        "koordlet": _koordlet(),
        "koord-manager": _manager(),
        "koord-scheduler": full_registry(),
        "koord-descheduler": full_descheduler_registry(),
    }
    pages = {name: generate_latest(registry).decode() for name, registry in registries.items()}
    return {**pages, "koord-device-daemon": _device_daemon()}


def _proxy() -> CollectorRegistry:
    proxy = Metrics()
    proxy.gauges = Gauges(records=lambda: {"pod": 1}, breakers=lambda: {"koordlet": 0})
    proxy.tally("/runtime.v1.RuntimeService/Version").calls += 1
    proxy.hook_seconds.labels("koordlet", "PreCreateContainer").observe(0.1)
    proxy.hook_outcomes.labels("koordlet", "PreCreateContainer", "applied").inc()
    proxy.intercepted.labels("CreateContainer", "hooked").inc()
    return proxy.registry


def _koordlet() -> CollectorRegistry:
    koordlet = HookMetrics()
    conflict = Conflict("cpu_shares", (("a", 1), ("b", 2)))
    outcome = HookResult(Patch(), ("batchresource",), (conflict,), (("broken", ValueError("x")),))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, outcome, 0.1)
    result = Result(Target("kubepods", "cpu.shares"), Outcome.WRITTEN)
    ReconcileMetrics(koordlet.registry).count(ReconcileResult(Round((result,))))
    jobs = InlineJobs(lambda: 0.0)
    for _ in range(2):
        jobs.submit(Job(JobKey("traffic"), 1.0, lambda _: None))
    jobs._queue.put(Job(JobKey("traffic"), 1.0, lambda _: None))
    JobMetrics(koordlet.registry, jobs)
    NriMetrics(koordlet.registry, NriClient(NriHandler()))
    plugins = ResourcePlugins("/none")
    plugins.calls["cpu", "Allocate", "answered"] = 1
    koordlet.registry.register(ResourcePluginMetrics(plugins, AllocationStore("/none")))
    node = full_node()
    cycles = next(series for series in node.cache.kept if series.kind == "container_cpi")
    instructions = Series("container_cpi", (*cycles.labels[:-1], "instruction"))
    node.cache.append(NOW - 1, [Sample(instructions, 1.0)])
    observed = node.observed()
    koordlet.registry.register(SampleMetrics(observed))
    koordlet.registry.register(StrategyMetrics(observed, busy_decisions().decided()))
    counts = EvictionCounts(Counter(written=1))
    counts.ended(EvictionResult.EVICTED, "MemoryEvict", "batch", "job-1")
    counts.ended(EvictionResult.REFUSED, "MemoryEvict", "batch", "job-2")
    koordlet.registry.register(EvictionMetrics(observed.node, counts, lambda: 0))
    ignored = HookResult(Patch(ignored=("pod a/b: label x",)))
    koordlet.count(Stage.PRE_CREATE_CONTAINER, ignored, 0.1)
    return koordlet.registry


async def _never(_key: str) -> None:
    raise AssertionError


def _manager() -> CollectorRegistry:
    registry = CollectorRegistry()
    queues = (("noderesource", ReconcileLoop("noderesource", _never)),)
    backstop = BackstopFigures(1, is_stopped=False, evictions={"evicted": 1})
    resizes = {"resizes": {"undo": 1}, "resize_states": {"wait": 1}}
    status = ManagerStatus(True, 0, queues=queues, backstop=backstop, **resizes)
    ManagerMetrics(registry, lambda: status)
    webhooks = WebhookMetrics(registry)
    webhooks.requests.labels("/mutate-pod", "CREATE", AdmissionOutcome.CHANGED).inc()
    webhooks.seconds.labels("/mutate-pod").observe(0.001)
    NodeMetricMetrics(registry).answered(None)
    return registry


def _device_daemon() -> str:
    device = SchedulableDevice(id="npu-0", type="npu", minor=0)
    now = time.time()
    state = VendorState((Accelerator(device, "huawei"),), now)
    report = Report({"huawei": state}, {"huawei": Answer("huawei", seconds=0.1)}, {"huawei": 1})
    report = replace(report, written_at=now)
    return "".join(device_metrics(report))
