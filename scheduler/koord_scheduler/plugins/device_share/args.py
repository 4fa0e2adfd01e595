"""Arguments of DeviceShare, with Koordinator's defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from koord_model.keys import NPU_CORE
from msgspec import Meta

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugins.device_share.device_scores import DEFAULT_WEIGHTS, DeviceScorer
from koord_scheduler.plugins.device_share.gpu_templates import DEFAULT_SOURCE, TemplatesSource
from koord_scheduler.plugins.device_share.learned_workload import GPUScores
from koord_scheduler.plugins.device_share.plugin import DeviceShareSettings

_LEAST, _MOST = "LeastAllocated", "MostAllocated"
_STRATEGIES = (_LEAST, _MOST, *(GPUScore.value for GPUScore in GPUScores if GPUScore))


class DeviceWeight(Strict, frozen=True):
    """A resource of devices, and what it counts."""

    name: str = ""
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class DeviceScoringStrategy(Strict, frozen=True):
    """Scoring of devices, and of nodes by their devices."""

    type: str = _LEAST
    resources: tuple[DeviceWeight, ...] = tuple(DeviceWeight(*one) for one in DEFAULT_WEIGHTS)


class UnsharedModel(Strict, frozen=True):
    """A model of GPUs that are given whole, by the labels of Nodes."""

    vendor: str = ""
    model: str = ""


class TemplatesConfig(Strict, frozen=True):
    """The ConfigMap with templates of parts of cards, and the resources that need one."""

    config_map_namespace: str = DEFAULT_SOURCE.namespace
    config_map_name: str = DEFAULT_SOURCE.name
    matched_resources: tuple[str, ...] = (NPU_CORE,)

    def source(self) -> TemplatesSource:
        """Return the source that it describes."""
        resources = frozenset(self.matched_resources)
        return TemplatesSource(self.config_map_namespace, self.config_map_name, resources)


class DeviceShareArgs(PluginArgs, frozen=True):
    """Arguments of DeviceShare; Koordinator has stopped to look at ``allocator``."""

    allocator: str = ""
    scoring_strategy: DeviceScoringStrategy = DeviceScoringStrategy()
    disable_device_numa_topology_alignment: bool = msgspec.field(
        default=False, name="disableDeviceNUMATopologyAlignment"
    )
    gpu_shared_resource_templates_config: TemplatesConfig = msgspec.field(
        default=TemplatesConfig(), name="gpuSharedResourceTemplatesConfig"
    )
    gpu_share_unsupported_models: tuple[UnsharedModel, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        strategy = self.scoring_strategy
        if strategy.type not in _STRATEGIES:
            expected = f"one of {', '.join(_STRATEGIES)}"
            yield problem(f"{path}.scoringStrategy.type", strategy.type, expected)
        templates = self.gpu_shared_resource_templates_config
        at = f"{path}.gpuSharedResourceTemplatesConfig"
        if not templates.config_map_namespace:
            yield problem(f"{at}.configMapNamespace", "", "a namespace")
        if not templates.config_map_name:
            yield problem(f"{at}.configMapName", "", "the name of a ConfigMap")

    def settings(self) -> DeviceShareSettings:
        """Return the settings that they describe."""
        strategy = self.scoring_strategy
        weights = tuple((resource.name, resource.weight) for resource in strategy.resources)
        models = frozenset(
            (gpu_share_unsupported_model.vendor, gpu_share_unsupported_model.model)
            for gpu_share_unsupported_model in self.gpu_share_unsupported_models
        )
        by_workload = strategy.type not in (_LEAST, _MOST)
        scorer = DeviceScorer(weights, is_packing=strategy.type != _LEAST)
        scores = GPUScores(strategy.type) if by_workload else GPUScores.PLAIN
        templates = self.gpu_shared_resource_templates_config.source()
        is_aligned = not self.disable_device_numa_topology_alignment
        return DeviceShareSettings(scorer, models, scores, is_aligned, templates)
