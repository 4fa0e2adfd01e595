"""Arguments of NodeNUMAResource. No IO."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.arguments.resource_scoring import CPU_AND_MEMORY, WeightedResource, weights
from koord_scheduler.plugins.node_numa_resource.pod_needs import NUMASettings
from koord_scheduler.plugins.node_numa_resource.policies import CPUBindPolicy
from koord_scheduler.plugins.node_numa_resource.scores import AmountScore, AmountScorer
from koord_scheduler.state.resource_scores import least_taken, most_taken

_NUMA_STRATEGIES = ("LeastAllocated", "MostAllocated")
_BIND_POLICIES = ("", "FullPCPUs", "SpreadByPCPUs")


class NUMAScoringStrategy(Strict, frozen=True):
    """Scoring of nodes, or NUMA nodes, by NodeNUMAResource."""

    type: str = "LeastAllocated"
    resources: tuple[WeightedResource, ...] = CPU_AND_MEMORY

    def problems(self, path: str) -> Iterator[str]:
        """Return Koordinator's errors in it."""
        if self.type not in _NUMA_STRATEGIES:
            yield problem(f"{path}.type", self.type, " or ".join(_NUMA_STRATEGIES))

    def score(self) -> AmountScore:
        """The score of a resource's free amount."""
        return most_taken if self.type == "MostAllocated" else least_taken


class NodeNUMAResourceArgs(PluginArgs, frozen=True):
    """Arguments of NodeNUMAResource, with Koordinator's defaults.

    By the resources of ``scoring_strategy`` NUMA nodes are scored, too.
    """

    default_cpu_bind_policy: str = msgspec.field(default="FullPCPUs", name="defaultCPUBindPolicy")
    scoring_strategy: NUMAScoringStrategy = NUMAScoringStrategy()
    numa_scoring_strategy: NUMAScoringStrategy = NUMAScoringStrategy()

    def problems(self, path: str) -> Iterator[str]:
        if self.default_cpu_bind_policy not in _BIND_POLICIES:
            expected = 'FullPCPUs, SpreadByPCPUs or ""'
            yield problem(f"{path}.defaultCPUBindPolicy", self.default_cpu_bind_policy, expected)
        yield from self.scoring_strategy.problems(f"{path}.scoringStrategy")
        yield from self.numa_scoring_strategy.problems(f"{path}.numaScoringStrategy")

    def settings(self) -> NUMASettings:
        """Return what the plugin is built from."""
        by_resource = weights(self.scoring_strategy.resources)
        return NUMASettings(
            CPUBindPolicy(self.default_cpu_bind_policy),
            AmountScorer(self.scoring_strategy.score(), by_resource),
            AmountScorer(self.numa_scoring_strategy.score(), by_resource),
        )
