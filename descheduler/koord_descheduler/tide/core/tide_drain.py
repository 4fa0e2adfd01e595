"""The DrainNode by which a node changes sides. No IO.

It is the record of the move: that there is one says that the node is on its way. Its name is the
node's, so that a node is in one move at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DRAIN_NODES, TIDE_NODE_POOLS
from koord_model.times import from_rfc3339

from koord_descheduler.drain.drain_spec import DrainBehavior, DrainSpec, read_drain_spec
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.migration.core.documents import kind_of
from koord_descheduler.tide.core.node_marks import LABEL_POOL, Side
from koord_descheduler.tide.core.pod_sides import OFFLINE_PODS
from koord_descheduler.tide.core.pool_spec import TidePool

LABEL_TO = "tide.koordinator.sh/to"
"""Of DrainNodes: the side that the node goes to."""
_MOST_OF_NAME = 253
_FAILED = (DrainPhase.FAILED, DrainPhase.ABORTED)


class TideDrain(NamedTuple):
    """A move under way; ``created`` is in seconds since the epoch."""

    name: str
    uid: str
    node: str
    to: Side
    phase: DrainPhase
    created: float
    message: str = ""
    is_deleted: bool = False

    @property
    def is_done(self) -> bool:
        """True if no pod of the other side is left."""
        return self.phase is DrainPhase.DRAINED and not self.is_deleted

    def failure(self, now: float, deadline: float) -> str:
        """Return why it cannot end, in a line; "" while it may."""
        if self.is_deleted:
            return "somebody deleted its DrainNode"
        if self.phase in _FAILED:
            return f"its DrainNode is {self.phase.value}: {self.message}"
        if now - self.created >= deadline and not self.is_done:
            return f"not done after {deadline:g} s: {self.phase.value}: {self.message}"
        return ""


def drains_of(pool: TidePool, documents: Iterable[Object]) -> list[TideDrain]:
    """The moves of a pool, among all DrainNodes."""
    return [_read(each) for each in documents if _labels(each).get(LABEL_POOL) == pool.name]


def _read(document: Object) -> TideDrain:
    meta, status = document["metadata"], document.get("status") or {}
    spec = document.get("spec") or {}
    return TideDrain(
        meta["name"],
        meta["uid"],
        str(spec.get("nodeName") or ""),
        Side.OFFLINE if _labels(document).get(LABEL_TO) == Side.OFFLINE else Side.ONLINE,
        DrainPhase(status.get("phase") or DrainPhase.PENDING),
        from_rfc3339(meta["creationTimestamp"]),
        str(status.get("message") or ""),
        bool(meta.get("deletionTimestamp")),
    )


def drain_document(pool: TidePool, node: str, to: Side, why: str) -> Object:
    """The DrainNode that takes a node to a side."""
    owner = {**kind_of(TIDE_NODE_POOLS), "name": pool.name, "uid": pool.uid}
    name = f"tide-{node}"
    if len(name) > _MOST_OF_NAME:
        name = f"tide-{hashlib.sha256(node.encode()).hexdigest()}"
    return {
        **kind_of(DRAIN_NODES),
        "metadata": {
            "name": name,
            "labels": {LABEL_POOL: pool.name, LABEL_TO: to.value},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "confirmState": "Confirmed",
            "reason": f"it goes {to}: {why}",
            "requestedBy": f"TideNodePool/{pool.name}",
            **_rules(pool, to),
        },
    }


def drain_spec(pool: TidePool, node: str, to: Side) -> DrainSpec:
    """The same as a drain reads it."""
    return read_drain_spec({"nodeName": node, **_rules(pool, to)})


def _rules(pool: TidePool, to: Side) -> dict[str, Any]:
    """Services find places before they leave; batch jobs are evicted, and others stay.

    The pool's own rules are about services.
    """
    offline = [{"selector": selector} for selector in OFFLINE_PODS]
    if to is Side.ONLINE:
        evicted = [{**each, "behavior": DrainBehavior.EVICT.value} for each in offline]
        return {"podRules": [*evicted, {"behavior": DrainBehavior.SKIP.value}]}
    skipped = [{**each, "behavior": DrainBehavior.SKIP.value} for each in offline]
    return {**pool.drain, "podRules": [*skipped, *(pool.drain.get("podRules") or ())]}


def _labels(document: Object) -> dict[str, str]:
    return document["metadata"].get("labels") or {}
