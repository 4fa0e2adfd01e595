"""One plugin's answer about a class of pods. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugin import AcrossNodes, Dependence, Filter, Plugin, Score
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


class ClassPlugin(NamedTuple):
    """A plugin's answer about a class."""

    plugin: Plugin
    weight: int
    filters: bool
    filter: Filter | None
    score: Score | None
    across: AcrossNodes | None
    depends_on: Dependence | None


def class_plugin(enabled: EnabledPlugin, pod: PodClass, nodes: ClusterState) -> ClassPlugin:
    """The answer of a plugin, as far as a profile has enabled it."""
    plugin, filters, weight = enabled
    return ClassPlugin(
        plugin,
        weight,
        filters,
        plugin.filter(pod, nodes) if filters else None,
        plugin.score(pod, nodes) if weight else None,
        plugin.across(pod, nodes),
        plugin.depends_on(pod, nodes),
    )
