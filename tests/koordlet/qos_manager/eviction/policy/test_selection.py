"""From claims to evictions."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodView,
    StrategyMode,
    Term,
)
from koordlet.qos_manager.eviction.policy.account import EvictionAllowance
from koordlet.qos_manager.eviction.policy.selection import (
    Claimed,
    EvictionSelection,
    rank,
    select_evictions,
)

from tests.support.views import pod_view

PODS = {name: pod_view(name) for name in "abcdefgh"}
WHO = ("s", "MemoryEvict", "memory")


def claim(
    need: float,
    victims: dict[str, float],
    rule: str = "MemoryEvict",
    resource: str = "memory",
    *,
    forced: bool = False,
    notice: float = 0.0,
    unit: str = "",
) -> EvictionClaim:
    given = (Term("used", 9.0, "bytes"), *([Term("need", need, unit)] if unit else []))
    return EvictionClaim(
        rule,
        resource,
        need,
        tuple(EvictionVictim(PODS[name], releases) for name, releases in victims.items()),
        Decision("memory is short", "used − limit", given),
        opt_in=False,
        forced=forced,
        notice_seconds=notice,
    )


def asked(
    *claims: EvictionClaim, strategy: str = "s", mode: StrategyMode = StrategyMode.ON
) -> list[Claimed]:
    return [(strategy, mode, one) for one in claims]


def may(pod: PodView, claim: EvictionClaim) -> str:
    return ""


def room(left: int = 100, **more: object) -> EvictionAllowance:
    return EvictionAllowance(left, 100, **more)  # type: ignore[arg-type]


def names(choice: EvictionSelection) -> list[str]:
    return [one.pod.uid for one in choice.evictions]


def said(choice: EvictionSelection) -> list[str]:
    return [f"{one.pod or one.aspect}: {one.outcome}" for _, _, one in choice.decisions]


class TestOneClaim:
    def test_victims_go_in_their_order_until_there_is_enough(self) -> None:
        choice = select_evictions(asked(claim(5, {"c": 2, "a": 3, "b": 9})), room(), may)
        assert names(choice) == ["c", "a"]
        assert said(choice) == [
            "ns/c: is to be evicted: memory is short (MemoryEvict)",
            "ns/a: is to be evicted: memory is short (MemoryEvict)",
        ]

    def test_the_numbers_are_with_it(self) -> None:
        choice = select_evictions(asked(claim(5, {"a": 2, "b": 4}, unit="bytes")), room(), may)
        text = str(choice.evictions[1].decision)
        assert "used − limit with used 9 B, need 5 B, still to be freed 3 B, frees 4 B" in text

    @pytest.mark.parametrize(
        ("resource", "said"), [("cpu", "5 cores"), ("memory", "5 B"), ("disks", "5")]
    )
    def test_units_without_a_word_are_the_resource_s(self, resource: str, said: str) -> None:
        choice = select_evictions(asked(claim(5, {"a": 5}, resource=resource)), room(), may)
        assert f"frees {said})" in str(choice.evictions[0].decision)

    @pytest.mark.parametrize("need", [0.0, -1.0, float("nan")])
    def test_no_need_no_eviction(self, need: float) -> None:
        assert select_evictions(asked(claim(need, {"a": 5})), room(), may) == EvictionSelection()

    def test_rounding_is_no_need(self) -> None:
        choice = select_evictions(
            asked(claim(0.1 + 0.2, {"a": 0.1, "b": 0.2, "c": 1})), room(), may
        )
        assert names(choice) == ["a", "b"]

    def test_a_pod_listed_twice_goes_once(self) -> None:
        one = claim(9, {"a": 2})
        twice = EvictionClaim(one.rule, "memory", 9, one.victims * 2, one.decision)
        assert names(select_evictions(asked(twice), room(), may)) == ["a"]

    def test_who_may_not_go_is_passed_over_with_a_reason(self) -> None:
        def guard(pod: PodView, claim: EvictionClaim) -> str:
            return "is a static pod" if pod.uid == "a" else ""

        barred = room(barred={"b": "a budget forbids it"})
        given = {"a": 5.0, "b": 5.0, "c": 0.0, "d": float("nan"), "e": 5.0}
        choice = select_evictions(asked(claim(5, given)), barred, guard)
        assert names(choice) == ["e"]
        assert said(choice)[:4] == [
            "ns/a: not evicted for memory: is a static pod",
            "ns/b: not evicted for memory: a budget forbids it",
            "ns/c: not evicted for memory: it would free nothing",
            "ns/d: not evicted for memory: it would free nothing",
        ]

    def test_too_few_victims_are_told_of(self) -> None:
        choice = select_evictions(asked(claim(9, {"a": 5})), room(), may)
        assert said(choice)[-1] == (
            "claim MemoryEvict memory: memory: not enough: no further pod may be evicted"
        )
        assert "need 9 B, on its way 5 B" in str(choice.decisions[-1][2])

    def test_the_budget_ends_it(self) -> None:
        choice = select_evictions(asked(claim(9, {"a": 2, "b": 2, "c": 5})), room(2), may)
        assert names(choice) == ["a", "b"]
        assert "100 evictions a minute are the most" in said(choice)[-1]

    def test_what_is_only_shown_says_so(self) -> None:
        choice = select_evictions(
            asked(claim(5, {"a": 5}), mode=StrategyMode.SHADOW), room(), may, only_shown=True
        )
        assert said(choice) == ["ns/a: would be evicted: memory is short (MemoryEvict)"]
        assert choice.decisions[0][:2] == ("s", StrategyMode.SHADOW)


class TestOnTheWayOut:
    def test_it_counts_and_is_not_evicted_again(self) -> None:
        going = room(going={"a": {WHO: 3.0}})
        assert names(select_evictions(asked(claim(5, {"a": 3, "b": 9})), going, may)) == ["b"]
        choice = select_evictions(asked(claim(3, {"a": 3, "b": 9})), going, may)
        assert names(choice) == []
        assert "enough is freed by pods that are on their way out" in said(choice)[0]

    def test_it_counts_where_the_claim_names_it_no_more(self) -> None:
        going = room(going={"a": {WHO: 3.0}})
        assert names(select_evictions(asked(claim(3, {"b": 9})), going, may)) == []

    def test_but_not_for_claims_that_never_named_it(self) -> None:
        going = room(going={"a": {("other", "CPUEvict", "cpu"): 3.0}})
        assert names(select_evictions(asked(claim(3, {"b": 9})), going, may)) == ["b"]

    def test_what_goes_for_another_rule_frees_the_same_resource(self) -> None:
        going = room(going={"a": {("other", "BEMemoryEvict", "memory"): 3.0}})
        assert names(select_evictions(asked(claim(3, {"b": 9})), going, may)) == []
        assert names(select_evictions(asked(claim(4, {"b": 9})), going, may)) == ["b"]

    def test_so_does_what_was_chosen_for_another_rule_a_moment_ago(self) -> None:
        best_effort, all_pods = claim(3, {"a": 3}, "BEMemoryEvict"), claim(3, {"b": 9})
        assert names(select_evictions(asked(best_effort, all_pods), room(), may)) == ["a"]

    def test_the_newest_estimate_counts(self) -> None:
        going = room(going={"a": {WHO: 3.0}})
        assert names(select_evictions(asked(claim(3, {"a": 1, "b": 9})), going, may)) == ["b"]

    def test_one_pod_serves_several_claims(self) -> None:
        claims = asked(
            claim(2, {"a": 2}, "MemoryEvict"),
            claim(4, {"b": 9, "a": 4}, "CPUEvict", "cpu"),
            claim(3, {"a": 2, "b": 1}, "ThresholdEvict"),
        )
        choice = select_evictions(claims, room(), may)
        assert names(choice) == ["b", "a"]
        assert choice.evictions[0].frees == {
            ("s", "CPUEvict", "cpu"): 9, ("s", "ThresholdEvict", "memory"): 1,
        }  # fmt: skip


class TestCoolTime:
    def test_nothing_more_is_chosen_within_it(self) -> None:
        cool = room(cooling=lambda resource: 3.0 if resource == "cpu" else 0.0)
        choice = select_evictions(
            asked(claim(1, {"a": 1}, "CPUEvict", "cpu"), claim(1, {"b": 1})), cool, may
        )
        assert names(choice) == ["b"]
        assert "cpu: no eviction yet" in said(choice)[0]
        assert "cool time left 3 s" in str(choice.decisions[0][2])

    def test_what_may_not_wait_does_not(self) -> None:
        cool = room(cooling=lambda _: 3.0)
        assert names(select_evictions(asked(claim(1, {"a": 1}, forced=True)), cool, may)) == ["a"]


class TestNotice:
    def test_a_pod_is_told_first_and_goes_later(self) -> None:
        soft = asked(claim(4, {"a": 2, "b": 2, "c": 2}, notice=60))
        first = select_evictions(soft, room(), may)
        assert names(first) == []
        assert [(one.pod.uid, one.seconds) for one in first.warned] == [("a", 60), ("b", 60)]
        later = select_evictions(soft, room(warned={"a": 60.0, "b": 20.0}), may)
        assert names(later) == ["a"]
        assert [(one.pod.uid, one.seconds) for one in later.warned] == [("b", 40)]
        assert "is evicted for memory soon" in said(first)[0]

    def test_what_may_not_wait_tells_nobody_first(self) -> None:
        choice = select_evictions(asked(claim(2, {"a": 2}, notice=60, forced=True)), room(), may)
        assert (names(choice), choice.warned) == (["a"], ())


class TestOrder:
    @pytest.mark.parametrize(
        ("rule", "found"),
        [
            ("BECPUEvict", 0),
            ("BEMemoryEvict", 0),
            ("beMemoryUsage", 0),
            ("CPUAllocatableEvict", 1),
            ("MemoryAllocatableEvict", 1),
            ("CPUEvict", 2),
            ("MemoryEvict", 2),
            ("cpuUsage", 2),
            ("ThresholdEvict", 3),
            ("anything", 3),
        ],
    )
    def test_ranks(self, rule: str, found: int) -> None:
        assert rank(rule) == found

    def test_claims_of_a_higher_rank_go_first(self) -> None:
        claims = asked(
            claim(1, {"a": 1}, "ThresholdEvict"),
            claim(1, {"b": 1}, "CPUEvict", "cpu"),
            claim(1, {"c": 1}, "MemoryAllocatableEvict", "batch-memory"),
            claim(1, {"d": 1}, "BEMemoryEvict", "best-effort memory"),
            claim(1, {"e": 1}, "ThresholdEvict", "pressure", forced=True),
        )
        assert names(select_evictions(claims, room(), may)) == ["e", "d", "c", "b", "a"]
        assert names(select_evictions(claims, room(2), may)) == ["e", "d"]


rules = st.sampled_from(
    ["BEMemoryEvict", "MemoryAllocatableEvict", "MemoryEvict", "ThresholdEvict"]
)
amounts = st.integers(1, 8).map(float)
victims = st.dictionaries(st.sampled_from(sorted(PODS)), amounts, max_size=8)
claimed = st.builds(
    lambda need, who, rule, resource, forced, strategy: (
        strategy,
        StrategyMode.ON,
        claim(need, who, rule, resource, forced=forced),
    ),
    amounts,
    victims,
    rules,
    st.sampled_from(["cpu", "memory"]),
    st.booleans(),
    st.sampled_from(["s", "t"]),
)
some = st.lists(
    claimed, max_size=6, unique_by=lambda one: (one[0], one[2].rule, one[2].resource, one[2].forced)
)
forbidden = st.sets(st.sampled_from(sorted(PODS)))


def freed(choice: EvictionSelection, who: str, one: EvictionClaim) -> float:
    """What a claim gets: by its own reckoning, else by that of others of its resource."""
    named = {pod.uid: releases for pod, releases in one.victims}
    found = 0.0
    for eviction in choice.evictions:
        frees = eviction.frees
        of_others = [freed for reason, freed in frees.items() if reason[2] == one.resource]
        own = frees.get((who, one.rule, one.resource), max(of_others, default=0.0))
        found += named.get(eviction.pod.uid, own)
    return found


class TestAlways:
    @given(some, forbidden, st.integers(0, 6), st.sets(st.sampled_from(sorted(PODS))))
    def test_never_more_than_the_budget_never_who_may_not_never_twice(
        self, claims: list[Claimed], not_these: set[str], left: int, going: set[str]
    ) -> None:
        where = room(left, going={uid: {} for uid in going})
        choice = select_evictions(
            claims, where, lambda pod, _: "no" if pod.uid in not_these else ""
        )
        chosen = names(choice)
        assert len(chosen) <= left
        assert len(set(chosen)) == len(chosen)
        assert not {*chosen} & (not_these | going)
        listed = {pod.uid for _, _, one in claims for pod, _ in one.victims}
        assert {*chosen} <= listed

    @given(some, forbidden)
    def test_needs_are_met_if_victims_suffice(
        self, claims: list[Claimed], not_these: set[str]
    ) -> None:
        choice = select_evictions(
            claims, room(), lambda pod, _: "no" if pod.uid in not_these else ""
        )
        for who, _, one in claims:
            possible = sum(rel for pod, rel in one.victims if pod.uid not in not_these)
            assert freed(choice, who, one) >= min(one.need, possible)

    @given(some)
    def test_every_eviction_was_needed_by_its_claim(self, claims: list[Claimed]) -> None:
        choice = select_evictions(claims, room(), may)
        before: list[str] = []
        for one in choice.evictions:
            listed = {pod.uid: releases for pod, releases in one.claim.victims}
            assert sum(listed.get(uid, 0) for uid in before) < one.claim.need
            before.append(one.pod.uid)

    @given(some, st.randoms(), st.integers(0, 6))
    def test_the_order_of_claims_is_of_no_account(
        self, claims: list[Claimed], chance: random.Random, left: int
    ) -> None:
        shuffled = list(claims)
        chance.shuffle(shuffled)
        assert names(select_evictions(claims, room(left), may)) == names(
            select_evictions(shuffled, room(left), may)
        )


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_of_two_claims_of_one_kind_the_one_that_gets_more_of_a_pod_counts(
    order: tuple[int, ...],
) -> None:
    oversold, hard = "MemoryAllocatableEvict", claim(1.0, {"a": 2.0}, "CPUEvict", "cpu")
    claims: list[Claimed] = [
        ("t", StrategyMode.ON, claim(1.0, {"a": 1.0}, oversold, "cpu")),
        ("t", StrategyMode.ON, replace(hard, rule=oversold, forced=True)),
        ("s", StrategyMode.ON, claim(2.0, {"b": 1.0}, "BEMemoryEvict", "cpu")),
    ]
    assert names(select_evictions([claims[place] for place in order], room(2), may)) == ["a"]
