"""Plans with a claim, and plans that say why there is none."""

from __future__ import annotations

from koordlet.qos_manager.core.strategy import EvictionVictim, Plan, Term
from koordlet.qos_manager.eviction.claims import eviction_claim
from koordlet.qos_manager.eviction.claims.eviction_claim import NodeShortage

from tests.support.views import pod_view, view

SHORTAGE = NodeShortage(
    "Rule", "cpu", "cores", "CPU is short", 2.0, "need = a − 1", (Term("a", 3),), "cpu"
)
VICTIMS = (EvictionVictim(pod_view(), 1.0),)


def test_a_claim_has_its_decision_with_the_need_and_how_many_may_go() -> None:
    plan = eviction_claim.to_free(SHORTAGE, VICTIMS, opt_in=False)
    (claim,) = plan.claims
    assert (claim.rule, claim.resource, claim.need) == ("Rule", "cpu", 2.0)
    assert (claim.victims, claim.opt_in, claim.forced) == (VICTIMS, False, False)
    assert plan.decisions == (claim.decision,)
    assert claim.decision.outcome == "CPU is short: pods are to be evicted"
    assert claim.decision.aspect == "cpu"
    expected = Term("a", 3), Term("need", 2.0, "cores"), Term("victims", 1)
    assert claim.decision.given == expected
    none = eviction_claim.to_free(SHORTAGE, (), opt_in=True)
    assert none.claims == ()
    assert none.decisions[0].outcome == "CPU is short, but this rule has no pod to evict"
    assert none.decisions[0].given == (*expected[:2], Term("victims", 0))
    both = eviction_claim.together(plan, eviction_claim.off("no reason"))
    assert both.claims == plan.claims
    assert [one.outcome for one in both.decisions][1] == "off: no reason"


def test_while_pods_are_not_known_or_the_list_is_old_no_pod_goes() -> None:
    assert eviction_claim.waits(view()) is None
    assert eviction_claim.waits(view(pods_known=False)) == said(eviction_claim.NOT_KNOWN_YET)
    assert eviction_claim.waits(view(pods_fresh=False)) == said(eviction_claim.NOT_HEARD_LATELY)


def said(outcome: str) -> Plan:
    return eviction_claim.nothing(outcome)
