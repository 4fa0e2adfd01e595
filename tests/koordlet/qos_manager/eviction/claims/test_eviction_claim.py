"""Plans with a claim, and plans that say why there is none."""

from __future__ import annotations

from koordlet.qos_manager.core.strategy import EvictionVictim, Term
from koordlet.qos_manager.eviction.claims import eviction_claim
from koordlet.qos_manager.eviction.claims.eviction_claim import NodeShortage

from tests.support.views import pod_view, view

SHORTAGE = NodeShortage(
    "Rule", "cpu", "cores", "CPU is short", 2.0, "a − b", (Term("a", 3),), "cpu"
)


def test_a_claim_has_its_decision_with_the_need_and_how_many_may_go() -> None:
    victims = (EvictionVictim(pod_view(), 1.0),)
    plan = eviction_claim.to_free(SHORTAGE, victims, opt_in=False)
    (claim,) = plan.claims
    assert (claim.rule, claim.resource, claim.need) == ("Rule", "cpu", 2.0)
    assert (claim.victims, claim.opt_in, claim.forced) == (victims, False, False)
    assert plan.decisions == (claim.decision,)
    assert claim.decision.outcome == "CPU is short: pods are to be evicted"
    assert claim.decision.aspect == "cpu"
    expected = Term("a", 3), Term("need", 2.0, "cores"), Term("victims", 1)
    assert claim.decision.given == expected


def test_without_victims_it_is_only_said() -> None:
    plan = eviction_claim.to_free(SHORTAGE, (), opt_in=True)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == "CPU is short, but this rule has no pod to evict"
    assert Term("need", 2.0, "cores") in plan.decisions[0].given


def test_a_node_whose_pods_are_not_known_waits() -> None:
    assert eviction_claim.waits(view()) is None
    waiting = eviction_claim.waits(view(pods_known=False))
    assert waiting is not None
    assert waiting.decisions[0].outcome == eviction_claim.NOT_KNOWN_YET


def test_by_an_old_list_nobody_goes() -> None:
    waiting = eviction_claim.waits(view(pods_fresh=False))
    assert waiting is not None
    assert (waiting.claims, waiting.decisions[0].outcome) == ((), eviction_claim.NOT_HEARD_LATELY)


def test_plans_about_several_resources_are_one() -> None:
    other = eviction_claim.off("no reason")
    both = eviction_claim.together(
        eviction_claim.to_free(SHORTAGE, (EvictionVictim(pod_view(), 1.0),), True), other
    )
    assert len(both.claims) == 1
    assert [one.outcome for one in both.decisions][1] == "off: no reason"
