"""Why a node offers what it offers, as ``/v1/why`` has it. No IO.

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
    """What stands and what was before; ``others`` are decisions of the other calculations.

    They are by their calculation's name. What those come to has no history.
    """
    document: Document = {"node": name, "at": at, "pods": [], "wishes": [], "strategies": []}
    strategy = fleet.strategy(name)
    if strategy is None:
        return document | {"decides": False, "reason": f"the manager knows no node {name}"}
    changes = fleet.history(name)
    since = {(one.tier, one.resource): one.at for one in changes}
    decisions = [
        _standing(_STRATEGIES[place[0]], one, since.get(place, at), at)
        for place, one in zip(fleet.places, fleet.decisions(name), strict=False)
    ]
    decisions += [
        _standing(calculation, one, at, at) for calculation, made in others.items() for one in made
    ]
    return document | {
        "decides": True,
        "decisions": decisions,
        "history": list(_history(changes, strategy)),
    }


def _standing(calculation: str, one: Decision, since: float, at: float) -> Document:
    shared = {"strategy": calculation, "mode": "on", **one.document()}
    return shared | {"since": since, "said_at": at}


def _history(changes: Sequence[OutcomeChange], strategy: ColocationStrategy) -> Iterable[Document]:
    """The newest first; in the words of the strategy that applies now."""
    until: dict[tuple[int, int], float] = {}
    for one in reversed(changes):
        about = one.tier, one.resource
        decision = Decision(
            outcome_text(one.outcome, *about, strategy),
            given=(Term("offered", *amount(one.offered, one.resource)),),
            aspect=aspect(*about),
        )
        shared = {"strategy": _STRATEGIES[one.tier], "mode": "on", **decision.document()}
        yield shared | {"at": one.at, "until": until.get(about)}
        until[about] = one.at
