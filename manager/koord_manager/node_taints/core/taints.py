"""Taints that nodes are to have for conditions of eviction plugins and other faults. No IO.

1. A taint counts for ``HOLD_SECONDS`` after it was last asked for, as in Katalyst.
2. At most ``MOST_PERCENT`` of the nodes have such taints, and always one may: plugins of all nodes
   may go wrong at once. Who has one keeps it; others wait in the order in which they were asked
   for. One that is to go takes a place until it is removed.
3. A taint is ours if the Node's annotation names it: others' of the same key stay.

``NoExecute`` is not among the effects: it would evict all pods at once, beyond every budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

HOLD_SECONDS = 300.0
MOST_PERCENT = 20
PREFIX = "node.katalyst.kubewharf.io/"
"""Of plugins' keys; Katalyst's own agents use it, so pods that tolerate theirs tolerate ours."""
OWN_PREFIX = "node.koordinator.sh/"
"""Of the keys for faults that the manager finds; it is in their names, too."""
ANNOTATION_TAINTS = "node.koordinator.sh/plugin-taints"
"""Our taints on a Node: "NAME:EFFECT", separated by commas."""
MOST_TAINTS = 8
"""Taints of one node; conditions beyond them are left out."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MARK = b'"conditions"'


class NodeTaint(NamedTuple):
    """A plugin's condition, or the whole key of another taint; and an effect."""

    name: str
    effect: str

    @property
    def key(self) -> str:
        """The key that a Node has it by."""
        return self.name if "/" in self.name else PREFIX + self.name

    @property
    def document(self) -> dict[str, str]:
        """As a Node has it."""
        return {"key": self.key, "effect": self.effect}


def most_tainted(nodes: int) -> int:
    """Number of nodes, of so many, that may have taints of ours."""
    return max(1, nodes * MOST_PERCENT // 100)


_NONE: frozenset[NodeTaint] = frozenset()


class _Condition(msgspec.Struct):
    name: str = ""
    effects: tuple[str, ...] = ()
    on: str = ""


class _Pykoord(msgspec.Struct):
    conditions: list[_Condition] = []


class _Extensions(msgspec.Struct):
    pykoord: _Pykoord | None = None


class _Status(msgspec.Struct):
    extensions: _Extensions | None = None


_STATUS = msgspec.json.Decoder(_Status)


def reported(status: bytes | None) -> frozenset[NodeTaint]:
    """The taints that a NodeMetric's status asks for; none of what is not valid."""
    if not status or _MARK not in status:
        return frozenset()
    try:
        extensions = _STATUS.decode(status).extensions
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return frozenset()
    conditions = extensions.pykoord.conditions if extensions and extensions.pykoord else ()
    found = {
        NodeTaint(condition.name, effect)
        for condition in conditions
        if not condition.on and _NAME.fullmatch(condition.name)
        for effect in condition.effects
        if effect in _EFFECTS
    }
    return frozenset(sorted(found)[:MOST_TAINTS])


def own(annotations: Mapping[str, str]) -> frozenset[NodeTaint]:
    """The taints on a Node that are ours."""
    text = annotations.get(ANNOTATION_TAINTS)
    if not text:
        return _NONE
    words = (word.partition(":") for word in text.split(","))
    return frozenset(NodeTaint(name, effect) for name, _, effect in words if effect in _EFFECTS)


def annotation(taints: Iterable[NodeTaint]) -> str | None:
    """The annotation that names them; ``None`` for none."""
    return ",".join(f"{taint.name}:{taint.effect}" for taint in sorted(taints)) or None


def _nothing(_taint: NodeTaint) -> bool:
    return False


@dataclass(slots=True)
class TaintHolds:
    """Taints that were reported lately, by node; times are of a steady clock.

    ``waiting`` are nodes whose taints would be too many.
    """

    waiting: tuple[str, ...] = ()
    _seen: dict[str, dict[NodeTaint, float]] = field(default_factory=dict)

    def desired(
        self,
        nodes: Collection[str],
        asked: Mapping[str, frozenset[NodeTaint]],
        present: Mapping[str, frozenset[NodeTaint]],
        now: float,
        bars: Callable[[NodeTaint], bool] = _nothing,
    ) -> Mapping[str, frozenset[NodeTaint]]:
        """The taints that nodes are to have; ``present`` are ours that they have.

        Of a node that is not in the result none. After a restart what is there is held anew.
        What ``bars`` is true of is not set anew.
        """
        for node in present.keys() - self._seen.keys():
            self._seen[node] = dict.fromkeys(present[node], now)
        for node, taints in asked.items():
            if taints:
                self._seen.setdefault(node, {}).update(dict.fromkeys(taints, now))
        self._seen = {
            node: held
            for node, taints in self._seen.items()
            if node in nodes
            and (held := {taint: at for taint, at in taints.items() if now - at < HOLD_SECONDS})
        }
        most = most_tainted(len(nodes))
        having = [node for node in self._seen if present.get(node)][:most]
        others = [node for node in self._seen if not present.get(node)]
        free = max(0, most - sum(1 for taints in present.values() if taints))
        self.waiting = tuple(others[free:])
        chosen = having + others[:free]
        found = {}
        for node in chosen:
            there = present.get(node, frozenset())
            may = (taint for taint in sorted(self._seen[node]) if taint in there or not bars(taint))
            if taints := frozenset(islice(may, MOST_TAINTS)):
                found[node] = taints
        return found


def patch(
    node: Mapping[str, Any], before: frozenset[NodeTaint], wanted: frozenset[NodeTaint]
) -> dict[str, Any] | None:
    """The merge patch of a Node, to be sent with its version; ``None`` if it is as it should be.

    ``before`` are ours. What somebody else has set stays theirs.
    """
    there = list((node.get("spec") or {}).get("taints") or ())
    ours = {(taint.key, taint.effect) for taint in before}
    others = [taint for taint in there if (taint.get("key"), taint.get("effect")) not in ours]
    taken = {(taint.get("key"), taint.get("effect")) for taint in others}
    mine = [taint for taint in sorted(wanted) if (taint.key, taint.effect) not in taken]
    taints = [*others, *(taint.document for taint in mine)]
    annotated = annotation(mine)
    known = ((node.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION_TAINTS)
    kept = {(taint.get("key"), taint.get("effect")) for taint in there}
    same = kept == {(taint.get("key"), taint.get("effect")) for taint in taints}
    if same and annotated == known:
        return None
    return {
        "metadata": {"annotations": {ANNOTATION_TAINTS: annotated}},
        "spec": {"taints": taints or None},
    }
