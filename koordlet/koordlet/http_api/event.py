"""A change of the node, or a decision, in the shape of Koordinator's audit events. No IO.

Koordinator's fields come first, left out where empty, as Go does; ``level``, which
Koordinator fills nowhere, is not among them. ``owner``, ``group`` and the others that follow
are our own, as the journal has them: ``knob``, ``old``, ``new`` and ``why`` of a change, ``mode``,
``aspect``, ``outcome``, ``formula`` and ``given`` of a decision, whose owner is a strategy;
``hook`` and ``transport`` of the answer to a hook call.
"""

from __future__ import annotations

import re

from koord_host.kernel_files.processes import Process, parse
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_host.resource_executor.journal import ChangeEntry, DecisionEntry, Event, HookAnswerEntry

from koordlet.http_api.documents.node import Document
from koordlet.qos_manager.core.decision_log import EVICTED
from koordlet.qos_manager.core.strategy import Decision, Term

_CGROUPS, _SYSTEM = "UpdateCgroups", "UpdateSystemConfig"
_RESCTRL, _RESCTRL_TASKS = "UpdateResctrl", "ApplyCatL3GroupTasks"
_BLKIO, _TRAFFIC, _HOOKS = "UpdateBlkIO", "netqos reconcile", "runtime-hooks"

_DECIDED = {
    "cpu_suppress": "AdjustBEByNodeCPUUsage",
    "cpu_burst": "CPUBurst",
    "memory_qos": "cgroup reconcile",
    "resctrl": _RESCTRL,
    "blkio": _BLKIO,
    "system_config": "systemConfig reconcile",
}
"""Koordinator's reasons by strategy; of a strategy that it has not, its name is the reason."""
_QUOTA_BURST = "CFSQuotaBurst"

_OF_RESCTRL = "resctrl."
_NETWORK = "network"
"""The place of what is done to the node's traffic."""

_CONTAINER = re.compile(
    r"(?:.*/)?(?:[^/]*-)?pod[^/]+/(?:(?:cri-containerd|docker|crio)-)?([^/]+?)(?:\.scope)?"
)
"""A container's cgroup, by either driver."""


def event_document(event: Event) -> Document:
    """One event; ``name`` is the pod's, or the cgroup's path, or the place's."""
    match event:
        case ChangeEntry():
            return _change_document(event)
        case DecisionEntry():
            return _decided_document(event)
        case HookAnswerEntry():
            return _answer_document(event)


def _change_document(change: ChangeEntry) -> Document:
    shared = _shared(change, _kind(change), _reason(change), _message(change))
    if _where(change) is PlaceKind.CGROUP:
        shared |= _container(change.group)
    elif process := _process(change):
        shared |= _container(process.group)
    return {
        **shared,
        "owner": change.owner,
        "group": change.group,
        "knob": change.knob,
        "old": change.old,
        "new": change.new,
        "why": change.why,
    }


def _decided_document(decided: DecisionEntry) -> Document:
    kind = "pod" if decided.pod else "group" if decided.group else "node"
    given = tuple(Term(*term) for term in decided.given)
    message = str(Decision(decided.outcome, decided.formula, given))
    if decided.mode != "on":
        message = f"{decided.mode}: {message}"
    return {
        **_shared(decided, kind, _reason_decided(decided), message),
        **_container(decided.group),
        "owner": decided.strategy,
        "group": decided.group,
        "mode": decided.mode,
        "aspect": decided.aspect,
        "outcome": decided.outcome,
        "formula": decided.formula,
        "given": [list(term) for term in decided.given],
    }


def _answer_document(answer: HookAnswerEntry) -> Document:
    """``container`` is a name: it has no id yet."""
    fields = [
        f"{field} {_shown(requested)} → {_shown(answered)} ({plugin}{': ' if why else ''}{why})"
        for plugin, why, changed in answer.plugins
        for field, requested, answered in changed
    ]
    document = _shared(answer, "pod", _HOOKS, "; ".join([*fields, *answer.notes]))
    if answer.container:
        document |= {"container": answer.container}
    return {**document, "owner": "hooks", "hook": answer.hook, "transport": answer.transport}


def _shared(event: Event, kind: str, reason: str, message: str) -> Document:
    """Koordinator's fields, but the container."""
    namespace, _, name = event.pod.rpartition("/")
    shared = {
        "createdAt": event.time,
        "type": kind,
        "namespace": namespace,
        "name": name if kind == "pod" else "" if kind == "node" else event.group,
        "reason": reason,
        "message": message,
    }
    return {field: text for field, text in shared.items() if text}


def _reason_decided(decided: DecisionEntry) -> str:
    if decided.aspect.partition(" ")[0] == EVICTED:
        return EVICTED
    if decided.strategy == "cpu_burst" and "quota" in decided.aspect:
        return _QUOTA_BURST
    return _DECIDED.get(decided.strategy, decided.strategy)


def _kind(change: ChangeEntry) -> str:
    """Return the kind of the changed thing in Koordinator's words: node, pod, group or unknown."""
    if change.pod:
        return "pod"
    if change.knob.startswith(_OF_RESCTRL):
        return "group"
    match _where(change):
        case PlaceKind.CGROUP:
            return "group" if change.group else "node"
        case PlaceKind.SYSCTL | PlaceKind.FILE | PlaceKind.DIRECTORY:
            return "node"
        case _:
            return "node" if change.group == _NETWORK else "unknown"


def _process(change: ChangeEntry) -> Process | None:
    """The process that was changed, if one was."""
    return parse(change.group) if _where(change) is PlaceKind.PROCESS else None


def _container(group: str) -> Document:
    """The id of the container whose cgroup it is, if it is one's."""
    found = _CONTAINER.fullmatch(group)
    return {"container": found[1]} if found else {}


def _reason(change: ChangeEntry) -> str:
    if change.knob.startswith(_OF_RESCTRL):
        return _RESCTRL_TASKS if change.knob == "resctrl.tasks" else _RESCTRL
    match _where(change):
        case PlaceKind.CGROUP:
            return _BLKIO if change.knob.startswith("blkio.") else _CGROUPS
        case PlaceKind.SYSCTL | PlaceKind.DIRECTORY:
            return _SYSTEM
        case PlaceKind.FILE:
            return _TRAFFIC
        case _:
            return _TRAFFIC if change.group == _NETWORK else _HOOKS


def _message(change: ChangeEntry) -> str:
    place = f"{change.group}: " if change.group else ""
    why = f" ({change.why})" if change.why else ""
    return f"{place}{change.knob} {_shown(change.old)} → {_shown(change.new)}{why}"


def _shown(value: int | str | None) -> str:
    return "unknown" if value is None else str(value)


def _where(change: ChangeEntry) -> PlaceKind | None:
    knob = KNOBS.get(change.knob)
    return None if knob is None else knob.where
