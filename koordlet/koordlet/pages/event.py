"""A change of the node in the shape of Koordinator's audit events. No IO.

Koordinator's fields come first, left out where empty, as Go does; ``level``, which
Koordinator fills nowhere, is not among them. ``owner``, ``group``, ``knob``, ``old``, ``new``
and ``why`` are our own, as the journal has them.
"""

from __future__ import annotations

import re

from koord_host.journal import Change
from koord_host.knobs import KNOBS, Where

from koordlet.pages.node import Document

_CGROUPS, _SYSTEM = "UpdateCgroups", "UpdateSystemConfig"
_RESCTRL, _RESCTRL_TASKS = "UpdateResctrl", "ApplyCatL3GroupTasks"
_BLKIO, _TRAFFIC, _HOOKS = "UpdateBlkIO", "netqos reconcile", "runtime-hooks"

_OF_RESCTRL = "resctrl."
_NETWORK = "network"
"""The place of what is done to the node's traffic."""

_CONTAINER = re.compile(
    r"(?:.*/)?(?:[^/]*-)?pod[^/]+/(?:(?:cri-containerd|docker|crio)-)?([^/]+?)(?:\.scope)?"
)
"""A container's cgroup, by either driver."""


def event_document(change: Change) -> Document:
    """One event; ``name`` is the pod's, or the cgroup's path, or the place's."""
    namespace, _, name = change.pod.rpartition("/")
    kind = _kind(change)
    shared = {
        "createdAt": change.time,
        "type": kind,
        "namespace": namespace,
        "name": name if kind == "pod" else "" if kind == "node" else change.group,
        "container": _container(change),
        "reason": _reason(change),
        "message": _message(change),
    }
    return {
        **{field: text for field, text in shared.items() if text},
        "owner": change.owner,
        "group": change.group,
        "knob": change.knob,
        "old": change.old,
        "new": change.new,
        "why": change.why,
    }


def _kind(change: Change) -> str:
    """What was changed: node, pod, group (of processes) or unknown, Koordinator's words."""
    if change.pod:
        return "pod"
    if change.knob.startswith(_OF_RESCTRL):
        return "group"
    match _where(change):
        case Where.CGROUP:
            return "group" if change.group else "node"
        case Where.SYSCTL | Where.FILE:
            return "node"
        case _:
            return "node" if change.group == _NETWORK else "unknown"


def _container(change: Change) -> str:
    """The id of the container whose cgroup it is."""
    if _where(change) is not Where.CGROUP:
        return ""
    found = _CONTAINER.fullmatch(change.group)
    return found[1] if found else ""


def _reason(change: Change) -> str:
    if change.knob.startswith(_OF_RESCTRL):
        return _RESCTRL_TASKS if change.knob == "resctrl.tasks" else _RESCTRL
    match _where(change):
        case Where.CGROUP:
            return _BLKIO if change.knob.startswith("blkio.") else _CGROUPS
        case Where.SYSCTL:
            return _SYSTEM
        case Where.FILE:
            return _TRAFFIC
        case _:
            return _TRAFFIC if change.group == _NETWORK else _HOOKS


def _message(change: Change) -> str:
    place = f"{change.group}: " if change.group else ""
    why = f" ({change.why})" if change.why else ""
    return f"{place}{change.knob} {_shown(change.old)} → {_shown(change.new)}{why}"


def _shown(value: int | str | None) -> str:
    return "unknown" if value is None else str(value)


def _where(change: Change) -> Where | None:
    knob = KNOBS.get(change.knob)
    return None if knob is None else knob.where
