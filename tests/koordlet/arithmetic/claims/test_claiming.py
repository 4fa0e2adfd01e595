"""Plans with a claim, and plans that say why there is none."""

from __future__ import annotations

from koordlet.arithmetic.claims import claiming
from koordlet.arithmetic.claims.claiming import Shortage
from koordlet.deciding.contract import Given, Victim

from tests.support.views import pod_view, view

SHORTAGE = Shortage("Rule", "cpu", "cores", "CPU is short", 2.0, "a − b", (Given("a", 3),), "cpu")


def test_a_claim_has_its_decision_with_the_need_and_how_many_may_go() -> None:
    victims = (Victim(pod_view(), 1.0),)
    plan = claiming.to_free(SHORTAGE, victims, opt_in=False)
    (claim,) = plan.claims
    assert (claim.rule, claim.resource, claim.need) == ("Rule", "cpu", 2.0)
    assert (claim.victims, claim.opt_in, claim.forced) == (victims, False, False)
    assert plan.decisions == (claim.decision,)
    assert claim.decision.outcome == "CPU is short: pods are to be evicted"
    assert claim.decision.aspect == "cpu"
    expected = Given("a", 3), Given("need", 2.0, "cores"), Given("victims", 1)
    assert claim.decision.given == expected


def test_without_victims_it_is_only_said() -> None:
    plan = claiming.to_free(SHORTAGE, (), opt_in=True)
    assert plan.claims == ()
    assert plan.decisions[0].outcome == "CPU is short, but this rule has no pod to evict"
    assert Given("need", 2.0, "cores") in plan.decisions[0].given


def test_a_node_whose_pods_are_not_known_waits() -> None:
    assert claiming.waits(view()) is None
    waiting = claiming.waits(view(pods_known=False))
    assert waiting is not None
    assert waiting.decisions[0].outcome == claiming.NOT_KNOWN_YET


def test_by_an_old_list_nobody_goes() -> None:
    waiting = claiming.waits(view(pods_fresh=False))
    assert waiting is not None
    assert (waiting.claims, waiting.decisions[0].outcome) == ((), claiming.NOT_HEARD_LATELY)


def test_plans_about_several_resources_are_one() -> None:
    other = claiming.off("no reason")
    both = claiming.together(claiming.to_free(SHORTAGE, (Victim(pod_view(), 1.0),), True), other)
    assert len(both.claims) == 1
    assert [one.outcome for one in both.decisions][1] == "off: no reason"
