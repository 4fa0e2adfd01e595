"""From claims to evictions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
        Decision("memory is short", "over = used − 1", given),
        opt_in=False,
        forced=forced,
        notice_seconds=notice,
    )


def of_s(*claims: EvictionClaim, mode: StrategyMode = StrategyMode.ON) -> list[Claimed]:
    return [("s", mode, one) for one in claims]


def may(pod: PodView, claim: EvictionClaim) -> str:
    return ""


def room(left: int = 100, **more: Any) -> EvictionAllowance:
    return EvictionAllowance(left, 100, **more)


def select(*claims: EvictionClaim, **more: Any) -> EvictionSelection:
    return select_evictions(of_s(*claims), room(**more), may)


def names(choice: EvictionSelection) -> list[str]:
    return [one.pod.uid for one in choice.evictions]


def said(choice: EvictionSelection) -> list[str]:
    return [f"{one.pod or one.aspect}: {one.outcome}" for _, _, one in choice.decisions]


def test_the_larger_of_two_equal_claims_is_served_first() -> None:
    small, large = claim(1, {"a": 1}), claim(2, {"b": 2, "a": 1})
    assert names(select(small, large)) == ["b"]


def test_a_pod_on_its_way_out_that_frees_nothing_counts_as_nothing() -> None:
    going = {PODS["a"].uid: {WHO: 1.0}}
    assert names(select(claim(1, {"a": 0, "b": 1}), going=going)) == ["b"]
    assert names(select(claim(1, {"a": -1, "b": 1}), going=going)) == ["b"]


class TestOneClaim:
    def test_victims_go_in_their_order_until_there_is_enough(self) -> None:
        choice = select(claim(5, {"c": 2, "a": 3, "b": 9}, unit="bytes"))
        assert names(choice) == ["c", "a"]
        outcome = "is to be evicted: memory is short (MemoryEvict)"
        assert said(choice) == [f"ns/c: {outcome}", f"ns/a: {outcome}"]
        text = str(choice.evictions[1].decision)
        assert "over = used − 1 with used 9 B, need 5 B, still to be freed 3 B, frees 3 B" in text
        rounded = select(claim(0.1 + 0.2, {"a": 0.1, "b": 0.2, "c": 1}))
        assert names(rounded) == ["a", "b"], "rounding is no need"

    @pytest.mark.parametrize(
        ("need", "victims", "gone"),
        [
            # In their order, but none whose going is for nothing,
            (305.0, {"a": 0.1, "b": 400}, ["b"]),
            (5.0, {"a": 1, "b": 2, "c": 9}, ["c"]),
            (5.0, {"a": 2, "b": 1, "c": 3}, ["a", "c"]),
            # or whose going is next to nothing,
            (305.0, {"a": 0.1, "b": 100}, ["b"]),
            (305.0, {"a": 0.1, "b": 0.2}, []),
            # unless it is just that which is missing.
            (100.5, {"a": 0.5, "b": 100}, ["a", "b"]),
        ],
    )
    def test_nobody_goes_in_vain(
        self, need: float, victims: dict[str, float], gone: list[str]
    ) -> None:
        assert names(select(claim(need, victims))) == gone

    @pytest.mark.parametrize("need", [0.0, -1.0, float("nan")])
    def test_no_need_no_eviction(self, need: float) -> None:
        assert select(claim(need, {"a": 5})) == EvictionSelection()

    def test_a_pod_listed_twice_goes_once(self) -> None:
        one = claim(9, {"a": 2})
        assert names(select(replace(one, victims=one.victims * 2))) == ["a"]

    def test_pods_that_may_not_go_are_skipped_with_a_reason(self) -> None:
        def guard(pod: PodView, claim: EvictionClaim) -> str:
            return "is a static pod" if pod.uid == "a" else ""

        victims = {"a": 5.0, "b": 5.0, "c": 0.0, "d": float("nan"), "e": 5.0}
        barred = room(barred={"b": "a budget forbids it"})
        choice = select_evictions(of_s(claim(5, victims)), barred, guard)
        assert names(choice) == ["e"]
        assert said(choice)[:4] == [
            "ns/a: not evicted for memory: is a static pod",
            "ns/b: not evicted for memory: a budget forbids it",
            "ns/c: not evicted for memory: it would free nothing",
            "ns/d: not evicted for memory: it would free nothing",
        ]

    def test_the_decision_says_why_there_are_too_few(self) -> None:
        choice = select(claim(9, {"a": 5}))
        assert said(choice)[-1] == (
            "claim MemoryEvict memory: memory: not enough: no further pod may be evicted"
        )
        assert "need 9 B, on its way 5 B" in str(choice.decisions[-1][2])
        choice = select(claim(9, {"a": 2, "b": 2, "c": 5}), left=2)
        assert names(choice) == ["a", "b"]
        assert "100 evictions a minute are the most" in said(choice)[-1]


OTHER = ("other", "BEMemoryEvict", "memory")


@pytest.mark.parametrize(
    ("reason", "one", "expected"),
    [
        (WHO, claim(5, {"a": 3, "b": 9}), ["b"]),
        (WHO, claim(3, {"a": 3, "b": 9}), []),
        # It counts where the claim does not name it any more, and for another rule,
        (WHO, claim(3, {"b": 9}), []),
        (OTHER, claim(3, {"b": 9}), []),
        (OTHER, claim(4, {"b": 9}), ["b"]),
        # but not for another resource; and the newest estimate counts.
        (("other", "CPUEvict", "cpu"), claim(3, {"b": 9}), ["b"]),
        (WHO, claim(3, {"a": 1, "b": 9}), ["b"]),
    ],
)
def test_what_is_on_its_way_out_counts(
    reason: tuple[str, str, str], one: EvictionClaim, expected: list[str]
) -> None:
    choice = select(one, going={"a": {reason: 3.0}})
    assert names(choice) == expected
    if not expected:
        assert "enough is freed by pods that are on their way out" in said(choice)[0]


def test_one_pod_serves_several_claims() -> None:
    best_effort, all_pods = claim(3, {"a": 3}, "BEMemoryEvict"), claim(3, {"b": 9})
    assert names(select(best_effort, all_pods)) == ["a"]
    choice = select(
        claim(2, {"a": 2}, "MemoryEvict"),
        claim(4, {"b": 9, "a": 4}, "CPUEvict", "cpu"),
        claim(3, {"a": 2, "b": 1}, "ThresholdEvict"),
    )
    assert names(choice) == ["b", "a"]
    expected = {("s", "CPUEvict", "cpu"): 9, ("s", "ThresholdEvict", "memory"): 1}
    assert choice.evictions[0].frees == expected


def test_within_the_cool_time_only_forced_claims_are_met() -> None:
    def cooling(resource: str) -> float:
        return 3.0 if resource == "cpu" else 0.0

    of_cpu = claim(1, {"a": 1}, "CPUEvict", "cpu")
    choice = select(of_cpu, claim(1, {"b": 1}), cooling=cooling)
    assert names(choice) == ["b"]
    assert "cpu: no eviction yet" in said(choice)[0]
    assert "cool time left 3 s" in str(choice.decisions[0][2])
    assert names(select(replace(of_cpu, forced=True), cooling=cooling)) == ["a"]


def test_what_was_evicted_in_vain_is_not_served_for_a_while() -> None:
    both = claim(1, {"a": 1}), claim(1, {"b": 1}, "CPUEvict", "cpu")
    choice = select(*both, in_vain={WHO: 120.0})
    assert names(choice) == ["b"]
    assert "memory: no eviction: the last ones did not lower what is needed" in said(choice)[-1]


def test_with_a_notice_a_pod_is_warned_first_and_goes_later() -> None:
    soft = claim(4, {"a": 2, "b": 2, "c": 2}, notice=60)
    first, later = select(soft), select(soft, warned={"a": 60.0, "b": 20.0})
    assert (names(first), names(later)) == ([], ["a"])
    assert [(one.pod.uid, one.seconds) for one in first.warned] == [("a", 60), ("b", 60)]
    assert [(one.pod.uid, one.seconds) for one in later.warned] == [("b", 40)]
    assert "is evicted for memory soon" in said(first)[0]
    forced = select(replace(soft, forced=True, need=2))
    assert (names(forced), forced.warned) == (["a"], ())


class TestOrder:
    def test_ranks(self) -> None:
        for place, rules in enumerate(
            (
                ("BECPUEvict", "BEMemoryEvict", "beMemoryUsage"),
                ("CPUAllocatableEvict", "MemoryAllocatableEvict"),
                ("CPUEvict", "MemoryEvict", "cpuUsage"),
                ("ThresholdEvict", "anything"),
            )
        ):
            assert {rank(rule) for rule in rules} == {place}

    def test_claims_of_a_higher_rank_go_first(self) -> None:
        claims = (
            claim(1, {"a": 1}, "ThresholdEvict"),
            claim(1, {"b": 1}, "CPUEvict", "cpu"),
            claim(1, {"c": 1}, "MemoryAllocatableEvict", "batch-memory"),
            claim(1, {"d": 1}, "BEMemoryEvict", "best-effort memory"),
            claim(1, {"e": 1}, "ThresholdEvict", "pressure", forced=True),
        )
        assert names(select(*claims)) == ["e", "d", "c", "b", "a"]
        assert names(select(*claims, left=2)) == ["e", "d"]


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
    """What a claim gets: by its own estimate, else by that of others of its resource."""
    named = {pod.uid: releases for pod, releases in one.victims}
    found = 0.0
    for eviction in choice.evictions:
        frees = eviction.frees
        of_others = [freed for reason, freed in frees.items() if reason[2] == one.resource]
        own = frees.get((who, one.rule, one.resource), max(of_others, default=0.0))
        found += named.get(eviction.pod.uid, own)
    return found


def guard_of(not_these: set[str]) -> Callable[[PodView, EvictionClaim], str]:
    return lambda pod, _: "no" if pod.uid in not_these else ""


class TestAlways:
    @given(some, forbidden, st.integers(0, 6), st.sets(st.sampled_from(sorted(PODS))))
    def test_never_more_pods_than_the_budget_no_forbidden_one_and_none_twice(
        self, claims: list[Claimed], not_these: set[str], left: int, going: set[str]
    ) -> None:
        where = room(left, going={uid: {} for uid in going})
        chosen = names(select_evictions(claims, where, guard_of(not_these)))
        assert len(chosen) <= left
        assert len(set(chosen)) == len(chosen)
        assert not {*chosen} & (not_these | going)
        listed = {pod.uid for _, _, one in claims for pod, _ in one.victims}
        assert {*chosen} <= listed

    @given(some, forbidden)
    def test_needs_are_met_if_victims_suffice(
        self, claims: list[Claimed], not_these: set[str]
    ) -> None:
        choice = select_evictions(claims, room(), guard_of(not_these))
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


def test_plugins_of_others_come_last_whatever_their_name_and_have_half_of_the_budget() -> None:
    foreign = replace(claim(9, dict.fromkeys("abcdefgh", 1), "BEFirst", "pods"), foreign=True)
    forced = replace(foreign, forced=True)
    ours = claim(2, {"a": 1, "b": 1}, forced=True)
    found = select_evictions(of_s(forced, ours), EvictionAllowance(10, 10), may)
    assert names(found) == ["a", "b", *"cdefgh"][:5]
    assert "not enough: 5 evictions a minute are the most" in " ".join(said(found))
    assert [one.claim.foreign for one in found.evictions] == [False] * 2 + [True] * 3
    soft = select_evictions(of_s(foreign, claim(1, {"h": 1})), EvictionAllowance(10, 10), may)
    assert names(soft)[0] == "h"
