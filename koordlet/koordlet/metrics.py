"""What koordlet counts about hooks, for Prometheus."""

from __future__ import annotations

from koord_hooks.runner import Outcome
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from prometheus_client import CollectorRegistry, Counter, Histogram

# Seconds; an answer takes some ten microseconds.
_BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1, 1.0)


class HookMetrics:
    """Calls by stage, and what became of plugins' wishes."""

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
        # Looked up once: a labels() call is a lock and a dictionary.
        self._by_stage = {stage: self._seconds.labels(stage.value) for stage in Stage}

    def count(self, stage: Stage, outcome: Outcome[Patch], seconds: float) -> None:
        """Note one answered call."""
        self._by_stage[stage].observe(seconds)
        for plugin in outcome.wished:
            self._plugins.labels(stage.value, plugin, "patch").inc()
        for plugin, _ in outcome.failures:
            self._plugins.labels(stage.value, plugin, "failed").inc()
        if outcome.conflicts:
            self._conflicts.labels(stage.value).inc(len(outcome.conflicts))
