"""Plans of strategies that claim evictions: a claim, or the reason why there is none. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    Plan,
    StrategyView,
    Term,
)

NOT_KNOWN_YET = "no eviction: it is not known yet which pods run"
NOT_HEARD_LATELY = "no eviction: the list of pods is an old one"


@dataclass(frozen=True, slots=True)
class NodeShortage:
    """Shortage of a resource on the node.

    ``what`` is a few words for people ("memory is above its threshold"), ``need`` how much is
    to be freed in ``unit``; ``formula`` and ``given`` show how that was computed.
    """

    rule: str
    resource: str
    unit: str
    what: str
    need: float
    formula: str
    given: tuple[Term, ...]
    aspect: str = ""


def nothing(
    outcome: str, formula: str = "", given: tuple[Term, ...] = (), aspect: str = ""
) -> Plan:
    """A plan that wants nothing, and says why."""
    return Plan(decisions=(Decision(outcome, formula, given, aspect=aspect),))


def off(reason: object) -> Plan:
    """The plan of a rule that cannot work with the settings it has."""
    return nothing(f"off: {reason}")


def to_free(shortage: NodeShortage, victims: tuple[EvictionVictim, ...], opt_in: bool) -> Plan:
    """A plan that claims what is needed; without victims it can only say so."""
    given = (
        *shortage.given,
        Term("need", shortage.need, shortage.unit),
        Term("victims", len(victims)),
    )
    if not victims:
        outcome = f"{shortage.what}, but this rule has no pod to evict"
        return nothing(outcome, shortage.formula, given, shortage.aspect)
    outcome = f"{shortage.what}: pods are to be evicted"
    decision = Decision(outcome, shortage.formula, given, aspect=shortage.aspect)
    claim = EvictionClaim(
        shortage.rule, shortage.resource, shortage.need, victims, decision, opt_in=opt_in
    )
    return Plan(decisions=(decision,), claims=(claim,))


def by_class(
    claim: EvictionClaim,
    best_effort: Sequence[EvictionVictim],
    others: Sequence[EvictionVictim],
) -> tuple[EvictionClaim, EvictionClaim]:
    """One claim on best-effort pods, and one on all of those that agreed.

    The second names best-effort pods too, so that what those free counts for it as well.
    """
    on_best_effort = replace(claim, victims=tuple(best_effort), opt_in=False)
    return on_best_effort, replace(claim, victims=(*best_effort, *others), opt_in=True)


def together(*plans: Plan) -> Plan:
    """Plans of one strategy about several resources."""
    return Plan(
        decisions=tuple(decision for plan in plans for decision in plan.decisions),
        claims=tuple(claim for plan in plans for claim in plan.claims),
    )


def waits(view: StrategyView) -> Plan | None:
    """The plan of a node whose pods are not known; ``None`` where they are.

    By an old list neither: its kubelet ends no pod either, and one after the other would be
    evicted in vain.
    """
    if not view.pods_known:
        return nothing(NOT_KNOWN_YET)
    return None if view.pods_fresh else nothing(NOT_HEARD_LATELY)
