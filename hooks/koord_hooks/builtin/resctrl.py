"""Pods get the cache ways and the memory bandwidth their annotation asks for.

``node.koordinator.sh/resctrl`` names them in percent. Each such pod has a resctrl
group of its own, ``koordlet-<uid>``, for all its containers; where the hardware
has no group left, the shared group of its class takes its tasks.
"""

from __future__ import annotations

from koord_model.annotations import about
from koord_model.keys import ANNOTATION_RESCTRL
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resctrl import resctrl_limits

from koord_hooks.specs import hookimpl


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    return _patch(pod, view)


@hookimpl
def pre_create_container(container: Container, view: NodeView) -> Patch | None:
    return _patch(container.pod, view)


def _patch(pod: Pod, view: NodeView) -> Patch | None:
    limits, ignored = resctrl_limits(pod)
    if limits is None:
        return Patch(ignored=ignored) if ignored else None
    if not view.kernel.resctrl:
        where = about(pod, ANNOTATION_RESCTRL)
        line = f"{where}: this node has no resctrl to set {limits} with (ignored)"
        return Patch(ignored=(*ignored, line))
    return Patch(resctrl=limits, why=f"{limits} → resctrl group {limits.group}", ignored=ignored)
