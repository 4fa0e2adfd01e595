"""The state of a cluster as the scheduler makes it for some plugins."""

from __future__ import annotations

from collections.abc import Iterable

from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.plugin import Plugin
from koord_scheduler.state.cluster_state import ClusterState


def prepared(plugins: Iterable[EnabledPlugin | Plugin], length: int = 64) -> ClusterState:
    """Nodes and pods may come once all features know of them."""
    nodes = ClusterState(length=length)
    for given in plugins:
        plugin = given.plugin if isinstance(given, EnabledPlugin) else given
        plugin.prepare(nodes)
    return nodes
