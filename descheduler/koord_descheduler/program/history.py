"""Lately planned rounds and lately executed moves, to answer why a pod moved or stays. No IO."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

from koord_model.times import rfc3339

from koord_descheduler.planner.move import Move, RoundPlan
from koord_descheduler.program.plan_document import Document, move_document, refusal_document

_MOST_PODS = 4096
"""Of some 500 bytes each."""
_MOST_ROUNDS = 100


class RoundHistory:
    """The last plan, the sizes of those before, and by pod its last move and its last refusal."""

    def __init__(self) -> None:
        self.last: RoundPlan | None = None
        self._results: OrderedDict[str, Document] = OrderedDict()
        self._refusals: OrderedDict[str, Document] = OrderedDict()
        self._rounds: deque[Document] = deque(maxlen=_MOST_ROUNDS)

    def planned(self, plan: RoundPlan, seconds: float) -> None:
        """A round was planned in so many seconds."""
        self.last = plan
        for refusal in plan.refusals:
            found = {**refusal_document(refusal), "at": rfc3339(plan.at)}
            _keep(self._refusals, refusal.pod.key, found)
        self._rounds.append(
            {
                "at": rfc3339(plan.at),
                "seconds": round(seconds, 3),
                "moves": len(plan.moves),
                "refused": len(plan.refusals),
            }
        )

    def executed(self, move: Move, result: str, why: str, at: float) -> None:
        """A move was carried out, or not, at ``at`` seconds since the epoch."""
        found = {**move_document(move), "at": rfc3339(at), "result": result, "why": why}
        _keep(self._results, move.pod.key, found)

    def rounds(self) -> list[Document]:
        """The last rounds, the newest last."""
        return list(self._rounds)

    def results(self) -> Iterator[Document]:
        """The last executed moves, the newest first."""
        return reversed(self._results.values())

    def knows(self, pod: str) -> bool:
        """True if a pod was moved lately, or stayed though a plugin wanted to move it."""
        return pod in self._results or pod in self._refusals

    def why(self, pod: str) -> dict[str, Any]:
        """All that is known of a pod by namespace/name: its last move, and why it stays."""
        found: dict[str, Any] = {"pod": pod, "moved": self._results.get(pod)}
        plan = self.last
        if plan is None:
            return {**found, "state": "unknown", "reason": "no round was planned yet"}
        found["round"] = rfc3339(plan.at)
        move = next((move for move in plan.moves if move.pod.key == pod), None)
        if move is not None:
            return {**found, "state": "to move", "move": move_document(move)}
        refusal = self._refusals.get(pod)
        if refusal is not None:
            return {**found, "state": "stays", "refusal": refusal}
        reason = "no plugin wanted to move it in the last round"
        return {**found, "state": "not considered", "reason": reason}


def _keep(kept: OrderedDict[str, Document], pod: str, document: Document) -> None:
    """Keep the last of each pod, and those of the last pods."""
    kept.pop(pod, None)
    kept[pod] = document
    while len(kept) > _MOST_PODS:
        kept.popitem(last=False)
