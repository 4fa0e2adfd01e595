"""Changes of a cluster after which a pod that fits nowhere may fit."""

from __future__ import annotations

from koord_scheduler.framework.diagnosis import Diagnosis, PluginRejections


def waking_changes(diagnosis: Diagnosis) -> list[str]:
    """Changes of which each may be enough for a pod to fit; none where it fits.

    Where some nodes are rejected by one plugin alone, they are what these plugins wait for;
    otherwise everything has to come together.
    """
    if diagnosis.feasible:
        return []
    if not diagnosis.nodes:
        return ["nodes that join the cluster"]
    cured = [_change(plugin) for plugin in diagnosis.plugins if plugin.cure]
    if cured:  # they reject all nodes
        return [" and ".join(cured)]
    alone = [plugin for plugin in diagnosis.plugins if plugin.alone]
    if alone:
        return list(map(_change, alone))
    return [" and ".join(map(_change, diagnosis.plugins))]


def _change(plugin_rejections: PluginRejections) -> str:
    return f"{plugin_rejections.cure or plugin_rejections.helped_by} ({plugin_rejections.plugin})"
