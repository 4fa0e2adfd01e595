"""Reasons of a node's amounts in the form of ``/v1/why``. No IO.

The shape is that of koordlet's page, so that the same people's tools read both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord_model.decision import Decision, Term

from koord_manager.noderesource.core.calculation_names import BATCH, MID
from koord_manager.noderesource.core.fleet import Fleet, OutcomeChange
from koord_manager.noderesource.core.outcomes import amount, aspect, outcome_text
from koord_manager.slo_config.core.colocation import ColocationStrategy

Document = dict[str, Any]

_STRATEGIES = (BATCH, MID)


def why_document(
    fleet: Fleet, name: str, at: float, others: Mapping[str, Sequence[Decision]]
) -> Document:
    """Build the document of present and past decisions; ``others`` are other calculations'.

    They are by their calculation's name. What those come to has no history.
    """
    document: Document = {"node": name, "at": at, "pods": [], "wishes": [], "strategies": []}
    strategy = fleet.strategy(name)
    if strategy is None:
        return document | {"decides": False, "reason": f"the manager knows no node {name}"}
    changes = fleet.history(name)
    since = {(change.tier, change.resource): change.at for change in changes}
    decisions = [
        _standing(_STRATEGIES[place[0]], decision, since.get(place, at), at)
        for place, decision in zip(fleet.places, fleet.decisions(name), strict=False)
    ]
    decisions += [
        _standing(calculation, decision, at, at)
        for calculation, made in others.items()
        for decision in made
    ]
    return document | {
        "decides": True,
        "decisions": decisions,
        "history": list(_history(changes, strategy)),
    }


def _standing(calculation: str, decision: Decision, since: float, at: float) -> Document:
    shared = {"strategy": calculation, "mode": "on", **decision.document()}
    return shared | {"since": since, "said_at": at}


def _history(changes: Sequence[OutcomeChange], strategy: ColocationStrategy) -> Iterable[Document]:
    """The newest first; in the words of the strategy that applies now."""
    until: dict[tuple[int, int], float] = {}
    for change in reversed(changes):
        about = change.tier, change.resource
        decision = Decision(
            outcome_text(change.outcome, *about, strategy),
            given=(Term("offered", *amount(change.offered, change.resource)),),
            aspect=aspect(*about),
        )
        shared = {"strategy": _STRATEGIES[change.tier], "mode": "on", **decision.document()}
        yield shared | {"at": change.at, "until": until.get(about)}
        until[about] = change.at
