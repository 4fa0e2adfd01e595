"""Metrics of hooks, the node and NRI, for Prometheus."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Iterator

from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_host.planning.jobs import Jobs
from koord_model.patch import Patch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult

# Seconds; an answer takes some ten microseconds.
_BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1, 1.0)
# Seconds; a round in which nothing has changed takes less than a millisecond.
_ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class HookMetrics:
    """Calls by stage, and the results of plugins' patches."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "koordlet_runtime_hook_seconds",
            "Time to answer a hook call, from request read to response made.",
            ["stage"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._plugins = Counter(
            "koordlet_runtime_hook_plugin",
            "Hooks that wanted a change (patch) or could not say (failed).",
            ["stage", "plugin", "outcome"],
            registry=self.registry,
        )
        self._conflicts = Counter(
            "koordlet_runtime_hook_conflicts",
            "Fields left alone because plugins wanted different values.",
            ["stage"],
            registry=self.registry,
        )
        self._ignored = Counter(
            "koordlet_runtime_hook_ignored",
            "Fields of pods that could not be used.",
            ["stage"],
            registry=self.registry,
        )
        # Looked up once: a labels() call is a lock and a dictionary.
        self._by_stage = {stage: self._seconds.labels(stage.value) for stage in Stage}

    def count(self, stage: Stage, outcome: HookResult[Patch], seconds: float) -> None:
        """Note one answered call."""
        self._by_stage[stage].observe(seconds)
        for plugin in outcome.contributors:
            self._plugins.labels(stage.value, plugin, "patch").inc()
        for plugin, _ in outcome.failures:
            self._plugins.labels(stage.value, plugin, "failed").inc()
        if outcome.patch.ignored:
            self._ignored.labels(stage.value).inc(len(outcome.patch.ignored))
        if outcome.conflicts:
            self._conflicts.labels(stage.value).inc(len(outcome.conflicts))


class ReconcileMetrics:
    """Rounds that level the node, and what became of kernel files in them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "koordlet_node_round_seconds",
            "Time of a round that levels the node.",
            buckets=_ROUND_BUCKETS,
            registry=registry,
        )
        self._plans = Histogram(
            "koordlet_node_plan_seconds",
            "Time from a plan of strategies to its values in kernel files.",
            buckets=_ROUND_BUCKETS,
            registry=registry,
        )
        self._files = Counter(
            "koordlet_node_files",
            "Kernel files looked at in rounds, by what became of them.",
            ["knob", "outcome"],
            registry=registry,
        )
        self._pods = Gauge("koordlet_node_pods", "Pods that are kept level.", registry=registry)

    def count(self, done: ReconcileResult) -> None:
        """Note one round."""
        self._seconds.observe(done.seconds)
        self._pods.set(done.pods)
        for seconds in done.plans:
            self._plans.observe(seconds)
        for result in done.writes.results:
            self._files.labels(result.target.knob, result.outcome.value).inc()


class JobMetrics(Collector):
    """Metrics of slow jobs: those that wait or run now, and the ends of earlier ones."""

    def __init__(self, registry: CollectorRegistry, jobs: Jobs) -> None:
        self._jobs = jobs
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """All that is known now."""
        there = GaugeMetricFamily(
            "koordlet_jobs",
            "Jobs that wait, run, or hang after their deadline.",
            labels=["job", "state"],
        )
        for (kind, state), number in Counted(
            (job.key.kind, job.state) for job in self._jobs.states()
        ).items():
            there.add_metric([kind, state], number)
        yield there
        ended = CounterMetricFamily(
            "koordlet_jobs_ended", "Jobs that ended, by how they did.", labels=["job", "end"]
        )
        for (kind, end), number in self._jobs.ended().items():
            ended.add_metric([kind, end], number)
        yield ended


class NriMetrics:
    """Metrics of the runtime's calls over NRI; ``counts`` are the client's own."""

    def __init__(self, registry: CollectorRegistry, client: NriClient) -> None:
        connected = Gauge(
            "koordlet_nri_connected", "1 while a runtime asks us over NRI.", registry=registry
        )
        connected.set_function(lambda: float(client.connected))
        calls = Gauge(
            "koordlet_nri_calls",
            "Calls over NRI since the start: all, those answered late, and those that failed.",
            ["kind"],
            registry=registry,
        )
        calls.labels("all").set_function(lambda: client.counts.calls)
        calls.labels("late").set_function(lambda: client.counts.late)
        calls.labels("failed").set_function(lambda: client.counts.failed)
