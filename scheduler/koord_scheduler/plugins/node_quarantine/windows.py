"""The last bindings of nodes, and of the owners of their pods. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from koord_scheduler.plugins.node_quarantine.verdict import Verdict

FAILS_ANYWHERE = 3
"""Nodes that reject an owner's pods, and none accepts one: that is the owner's fault."""


@dataclass(slots=True)
class RejectedOwner:
    """Verdicts of nodes about an owner's pods; ``seen`` is the time of its last verdict."""

    rejected_on: set[str] = field(default_factory=set)
    is_accepted: bool = False
    seen: float = 0.0

    @property
    def fails_anywhere(self) -> bool:
        """True if its rejections say nothing of nodes."""
        return not self.is_accepted and len(self.rejected_on) >= FAILS_ANYWHERE


class Windows:
    """The last ``most`` bindings of each node and kind by time; each pod counts once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[str, dict[str, Verdict]]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._owners: dict[str, RejectedOwner] = {}

    def add(self, verdict: Verdict) -> bool:
        """Note a verdict; True if it was a rejection that nobody knew."""
        kinds = (verdict.kind,) if verdict.is_rejected else ("", *verdict.kinds)
        is_new = sum(self._add(kind, verdict) for kind in kinds) > 0
        if is_new:
            owner = self._owners.setdefault(verdict.owner, RejectedOwner())
            owner.seen = max(owner.seen, verdict.at)
            if not verdict.is_rejected:
                owner.is_accepted = True
            elif len(owner.rejected_on) < FAILS_ANYWHERE:
                owner.rejected_on.add(verdict.node)
        return is_new and verdict.is_rejected

    def _add(self, kind: str, verdict: Verdict) -> bool:
        if verdict.at < self._since.get((verdict.node, kind), 0.0):
            return False
        window = self._of.setdefault(verdict.node, {}).setdefault(kind, {})
        if verdict.uid in window:
            return False
        window[verdict.uid] = verdict
        if len(window) > self._most:
            oldest = min(window.values(), key=lambda verdict: (verdict.at, verdict.uid))
            del window[oldest.uid]
            return oldest is not verdict
        return True

    def rejections(self, node: str, kind: str, since: float) -> tuple[int, int]:
        """Rejections of a node since a time that count, and how many bindings they are of."""
        window = self._of.get(node, {}).get(kind, {}).values()
        found = [
            verdict
            for verdict in window
            if verdict.at >= since and not self._is_discounted(verdict)
        ]
        return sum(verdict.is_rejected for verdict in found), len(found)

    def fails_anywhere(self, owner: str) -> bool:
        """True if an owner's pods were rejected by many nodes, and accepted by none."""
        known = self._owners.get(owner)
        return known is not None and known.fails_anywhere

    def _is_discounted(self, verdict: Verdict) -> bool:
        return verdict.is_rejected and self.fails_anywhere(verdict.owner)

    def kinds(self, node: str) -> tuple[str, ...]:
        """The kinds that there are bindings of."""
        return tuple(self._of.get(node, ()))

    def clear(self, node: str, kind: str, since: float) -> None:
        """A node works: only what comes ``since`` then counts."""
        self._of.get(node, {}).pop(kind, None)
        self._since[node, kind] = since

    def forget(self, node: str) -> None:
        """A node is gone; another one of its name is another machine."""
        for kind in self._of.pop(node, {}):
            self._since.pop((node, kind), None)

    def prune(self, since: float) -> None:
        """Forget what is older."""
        for node, kind, window in list(self._windows()):
            for uid in [verdict.uid for verdict in window.values() if verdict.at < since]:
                del window[uid]
            if not window:
                del self._of[node][kind]
        self._of = {node: kinds for node, kinds in self._of.items() if kinds}
        self._since = {key: at for key, at in self._since.items() if at >= since}
        self._owners = {key: owner for key, owner in self._owners.items() if owner.seen >= since}

    def _windows(self) -> Iterator[tuple[str, str, dict[str, Verdict]]]:
        for node, kinds in self._of.items():
            for kind, window in kinds.items():
                yield node, kind, window
