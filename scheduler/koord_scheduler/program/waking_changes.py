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
    cured = [_change(one) for one in diagnosis.plugins if one.cure]
    if cured:  # they reject all nodes
        return [" and ".join(cured)]
    alone = [one for one in diagnosis.plugins if one.alone]
    if alone:
        return list(map(_change, alone))
    return [" and ".join(map(_change, diagnosis.plugins))]


def _change(one: PluginRejections) -> str:
    return f"{one.cure or one.helped_by} ({one.plugin})"
