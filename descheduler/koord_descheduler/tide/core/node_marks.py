"""The labels, the taint and the annotation by which a node says where it is. No IO.

Nothing about nodes is kept elsewhere, so that any leader goes on where another one was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_model.times import from_rfc3339, rfc3339
from koord_scheduler.objects.annotations import read_annotations
from koord_scheduler.objects.node import Taint

from koord_descheduler.tide.core.pool_spec import PREFIX, Label, TidePool

LABEL_POOL = f"{PREFIX}/node-pool"
LABEL_RESERVE = f"{PREFIX}/reserve"
ANNOTATION_MOVE = "tide.koordinator.sh/last-move"
"""The last move of a node, and what became of it."""
_KATALYSTS = (f"{PREFIX}/online-not-used", f"{PREFIX}/offline-not-used")
_EFFECT = "NoSchedule"
"""NoExecute would evict all pods at once, beyond every budget."""

read_annotations(ANNOTATION_MOVE)


class Side(StrEnum):
    """The pods that a node is for: services or batch jobs."""

    ONLINE = "online"
    OFFLINE = "offline"

    @property
    def other(self) -> Side:
        """The other one."""
        return Side.OFFLINE if self is Side.ONLINE else Side.ONLINE


class LastMove(NamedTuple):
    """A move that ended ``at`` a time, in seconds since the epoch; ``drain`` is its UID.

    If it is not done, the node was given back, and ``why`` says the reason.
    """

    to: Side
    at: float
    is_done: bool
    drain: str
    why: str = ""

    @property
    def text(self) -> str:
        """The value of the annotation."""
        result = "Done" if self.is_done else "GivenBack"
        found = {"to": self.to, "at": rfc3339(self.at), "result": result, "drain": self.drain}
        return json.dumps(found | {"why": self.why}, separators=(",", ":"))


def read_last_move(annotations: Mapping[str, str]) -> LastMove | None:
    """The last move of a node; ``None`` if there was none, or what is there is not one."""
    try:
        found = json.loads(annotations[ANNOTATION_MOVE])
        at = from_rfc3339(found["at"])
        is_done = found["result"] == "Done"
        return LastMove(Side(found["to"]), at, is_done, str(found["drain"]), str(found["why"]))
    except (KeyError, ValueError, TypeError, RecursionError):
        return None


def side_of(labels: Mapping[str, str], pool: TidePool) -> Side:
    """The side of a node of a pool; one that says nothing is online."""
    key, value = pool.offline
    return Side.OFFLINE if labels.get(key) == value else Side.ONLINE


def marked(
    labels: Mapping[str, str], taints: list[Taint], pool: TidePool, side: Side, *, reserved: bool
) -> tuple[dict[str, str], list[Taint]]:
    """The labels and taints of a node on a side."""
    merged = {**labels, **_labels(pool, side, reserved=reserved)}
    found = {key: value for key, value in merged.items() if value is not None}
    taint, keys = _taint(pool, side), _taint_keys(pool)
    others = [each for each in taints if each.key not in keys]
    return found, [*others, Taint(*taint, _EFFECT)] if taint is not None else others


def marks_patch(
    node: Object, pool: TidePool, side: Side, *, reserved: bool, move: LastMove | None = None
) -> dict[str, Any] | None:
    """The merge patch that puts a node on a side; ``None`` if it says so already."""
    labels, annotations, taints = _parts(node)
    wanted = _labels(pool, side, reserved=reserved)
    changed = {key: value for key, value in wanted.items() if labels.get(key) != value}
    keys, taint = _taint_keys(pool), _taint(pool, side)
    others = [each for each in taints if each.get("key") not in keys]
    ours = [{**taint._asdict(), "effect": _EFFECT}] if taint is not None else []
    found: dict[str, Any] = {}
    if changed:
        found["metadata"] = {"labels": changed}
    if [_identity(each) for each in taints] != [_identity(each) for each in [*others, *ours]]:
        found["spec"] = {"taints": [*others, *ours] or None}
    if move is not None and annotations.get(ANNOTATION_MOVE) != move.text:
        found.setdefault("metadata", {})["annotations"] = {ANNOTATION_MOVE: move.text}
    return found or None


def cleaning_patch(node: Object, pool: TidePool) -> dict[str, Any] | None:
    """The merge patch that takes a node out of its pool; ``None`` if it is in none."""
    labels, annotations, taints = _parts(node)
    if labels.get(LABEL_POOL) != pool.name:
        return None
    own = (LABEL_POOL, LABEL_RESERVE, pool.online.key, pool.offline.key, pool.tide.key)
    found: dict[str, Any] = {"metadata": {"labels": {key: None for key in own if key in labels}}}
    if ANNOTATION_MOVE in annotations:
        found["metadata"]["annotations"] = {ANNOTATION_MOVE: None}
    others = [each for each in taints if each.get("key") not in _taint_keys(pool)]
    if len(others) < len(taints):
        found["spec"] = {"taints": others or None}
    return found


def _labels(pool: TidePool, side: Side, *, reserved: bool) -> dict[str, str | None]:
    here, there = (
        (pool.online, pool.offline) if side is Side.ONLINE else (pool.offline, pool.online)
    )
    return {
        there.key: None,
        pool.tide.key: None if reserved else pool.tide.value,
        LABEL_POOL: pool.name,
        LABEL_RESERVE: "true" if reserved else "false",
        here.key: here.value,
    }


def _taint(pool: TidePool, side: Side) -> Label | None:
    return pool.online_taint if side is Side.ONLINE else pool.offline_taint


def _taint_keys(pool: TidePool) -> set[str]:
    """Those of the pool, and Katalyst's: who takes over a pool has its taints."""
    own = [pool.offline_taint.key, *([pool.online_taint.key] if pool.online_taint else [])]
    return {*own, *_KATALYSTS}


def _identity(taint: Mapping[str, Any]) -> tuple[Any, ...]:
    return taint.get("key"), taint.get("value", ""), taint.get("effect")


def _parts(node: Object) -> tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]:
    meta = node["metadata"]
    taints = (node.get("spec") or {}).get("taints") or []
    return meta.get("labels") or {}, meta.get("annotations") or {}, taints
