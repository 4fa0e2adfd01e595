"""What is remembered of decisions."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.core.decision_log import (
    EVICTED,
    CurrentDecision,
    DecisionKey,
    DecisionLog,
    DecisionRecord,
    of_evicted,
    of_group,
    of_pod,
    of_strategies,
    plain,
)
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, Term

Said = tuple[str, StrategyMode, Decision]


def said(outcome: str, number: float = 0.0, strategy: str = "s", **about: str) -> Said:
    return strategy, StrategyMode.ON, Decision(outcome, "n", (Term("n", number),), **about)


def everything(_: DecisionKey) -> bool:
    return True


def outcomes(entries: Sequence[DecisionRecord | CurrentDecision]) -> list[str]:
    return [one.decision.outcome for one in entries]


def test_what_was_not_decided_before_is_new() -> None:
    kept = DecisionLog()
    [new] = kept.keep(10.0, [said("a", 1.0)])
    assert (new.at, new.strategy, new.mode, new.until) == (10.0, "s", StrategyMode.ON, None)
    assert new.decision.given[0].value == 1.0


def test_an_outcome_that_stands_is_not_new_and_has_the_newest_numbers() -> None:
    kept = DecisionLog()
    kept.keep(10.0, [said("a", 1.0)])
    assert kept.keep(11.0, [said("a", 2.0)]) == ()
    [standing], [entry] = kept.find(everything)
    assert (standing.since, standing.said_at) == (10.0, 11.0)
    assert standing.decision.given[0].value == 2.0
    assert entry.decision.given[0].value == 1.0, "those that brought it about"
    assert entry.until is None


def test_another_outcome_ends_the_one_before() -> None:
    kept = DecisionLog()
    kept.keep(10.0, [said("a")])
    assert outcomes(kept.keep(11.0, [said("b")])) == ["b"]
    [standing], history = kept.find(everything)
    assert (standing.decision.outcome, standing.since) == ("b", 11.0)
    assert [(one.decision.outcome, one.at, one.until) for one in history] == [
        ("b", 11.0, None),
        ("a", 10.0, 11.0),
    ]


def test_another_mode_is_news() -> None:
    kept = DecisionLog()
    strategy, _, decision = said("a")
    kept.keep(10.0, [(strategy, StrategyMode.SHADOW, decision)])
    [new] = kept.keep(11.0, [(strategy, StrategyMode.ON, decision)])
    assert new.mode is StrategyMode.ON
    assert kept.find(everything).standing[0].since == 11.0


def test_what_is_not_said_any_more_is_over() -> None:
    kept = DecisionLog()
    kept.keep(10.0, [said("a"), said("a", strategy="other")])
    assert kept.keep(11.0, [said("a", strategy="other")]) == ()
    standing, history = kept.find(everything)
    assert [one.strategy for one in standing] == ["other"]
    assert {one.strategy: one.until for one in history} == {"s": 11.0, "other": None}
    assert outcomes(kept.keep(12.0, [said("a")])) == ["a"], "it began anew"


def test_of_several_about_the_same_the_last_counts() -> None:
    kept = DecisionLog()
    for at in (10.0, 11.0):
        new = kept.keep(at, [said("a"), said("b")])
        assert outcomes(new) == (["b"] if at == 10.0 else [])


def test_each_pod_group_and_aspect_stands_for_itself() -> None:
    kept = DecisionLog()
    round_ = [said("a", **about) for about in ({}, {"pod": "n/p"}, {"group": "g"}, {"aspect": "x"})]
    assert len(kept.keep(10.0, round_)) == 4
    assert kept.keep(11.0, round_) == ()
    assert len(kept.keep(12.0, [*round_[:3], said("b", aspect="x")])) == 1


GROUPS = {
    "kubepods": True,
    "kubepods/besteffort": True,
    "kubepods/besteffort/podu": True,
    "kubepods/besteffort/podu/c": True,
    "kubepods/besteffort2": False,
    "kubepods/burstable": False,
    "": False,
}


@pytest.mark.parametrize(("group", "wanted"), GROUPS.items())
def test_of_a_group_with_those_above_and_below(group: str, wanted: bool) -> None:
    assert of_group("kubepods/besteffort")(DecisionKey("s", group=group)) is wanted


@pytest.mark.parametrize(
    ("name", "pod", "wanted"),
    [
        ("web", "shop/web", True),
        ("shop/web", "shop/web", True),
        ("we", "shop/web", False),
        ("shop", "shop/web", False),
        ("test/web", "shop/web", False),
        ("web", "", False),
    ],
)
def test_of_a_pod_with_or_without_its_namespace(name: str, pod: str, wanted: bool) -> None:
    assert of_pod(name)(DecisionKey("s", pod=pod)) is wanted


@pytest.mark.parametrize(
    ("name", "aspect", "pod", "wanted"),
    [
        ("", EVICTED, "shop/web", True),
        ("", "eviction memory", "shop/web", True),
        ("web", EVICTED, "shop/web", True),
        ("cart", EVICTED, "shop/web", False),
        ("web", "", "shop/web", False),
        ("web", "evictions", "shop/web", False),
        ("", "eviction memory", "", False),
    ],
)
def test_of_evictions(name: str, aspect: str, pod: str, wanted: bool) -> None:
    assert of_evicted(name)(DecisionKey("s", aspect, pod)) is wanted


def test_of_strategies() -> None:
    assert of_strategies("a", "b")(DecisionKey("b"))
    assert not of_strategies("a", "b")(DecisionKey("ab"))
    assert not of_strategies()(DecisionKey("a"))


def test_only_what_is_wanted_is_found_and_not_more() -> None:
    kept = DecisionLog()
    for at in range(8):
        kept.keep(float(at), [said(f"{at}", pod="n/p"), said(f"{at}", pod="n/q")])
    standing, history = kept.find(of_pod("p"), most=3)
    assert outcomes(standing) == ["7"]
    assert outcomes(history) == ["7", "6", "5"]
    assert kept.find(of_pod("p"), most=0).history == ()


def test_an_evicted_pod_is_remembered_when_it_is_gone() -> None:
    kept = DecisionLog()
    kept.keep(1.0, [said("evicted", pod="n/p", aspect=EVICTED)])
    for at in range(2, 50):
        kept.keep(float(at), [said("a")])
    standing, [entry] = kept.find(of_evicted("p"))
    assert standing == ()
    assert (entry.at, entry.until) == (1.0, 2.0)


def test_the_history_of_one_thing_is_bounded() -> None:
    kept = DecisionLog(most=100, most_of_one=4)
    kept.keep(0.0, [said("rare", pod="n/p")])
    for at in range(1, 50):
        kept.keep(float(at), [said(str(at)), said("rare", pod="n/p")])
    assert outcomes(kept.find(of_strategies("s")).history) == ["49", "48", "47", "46", "rare"]


def test_old_pods_go_first_where_there_is_too_much() -> None:
    kept = DecisionLog(most=5)
    for at in range(20):
        kept.keep(float(at), [said("a", pod=f"n/{at}")])
    assert [one.decision.pod for one in kept.find(everything).history] == [
        f"n/{at}" for at in (19, 18, 17, 16, 15)
    ]


def test_what_stands_is_known_even_when_its_entry_has_gone() -> None:
    kept = DecisionLog(most=2)
    kept.keep(0.0, [said("long", pod="n/p")])
    for at in range(1, 9):
        kept.keep(float(at), [said("long", pod="n/p"), said(str(at))])
    [standing], history = kept.find(of_pod("p"))
    assert (standing.since, standing.said_at, history) == (0.0, 8.0, ())
    assert kept.keep(9.0, [said("other", pod="n/p")]) != ()


_ROUNDS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["p", "q", ""]), st.sampled_from("xyz")),
        max_size=6,
    ),
    max_size=30,
)


@given(_ROUNDS, st.integers(1, 8), st.integers(1, 4))
def test_news_are_the_changes_and_bounds_hold(
    rounds: list[list[tuple[str, str, str]]], most: int, most_of_one: int
) -> None:
    kept = DecisionLog(most, most_of_one)
    before: dict[tuple[str, str], str] = {}
    told: list[DecisionRecord] = []
    for at, round_ in enumerate(rounds):
        now = {(strategy, pod): outcome for strategy, pod, outcome in round_}
        new = kept.keep(at, [said(o, at, strategy=s, pod=p) for s, p, o in round_])
        told += new
        changed = {key for key, outcome in now.items() if before.get(key) != outcome}
        assert {(one.strategy, one.decision.pod) for one in new} == changed
        standing, history = kept.find(everything)
        assert {(one.strategy, one.decision.pod): one.decision.outcome for one in standing} == now
        assert len(history) <= most
        by_key = [one.key for one in history]
        assert all(by_key.count(key) <= most_of_one for key in by_key)
        assert [one.at for one in history] == sorted((one.at for one in history), reverse=True)
        # Only what stands has no end; and what is there was told, as it is there.
        assert {one.key for one in history if one.until is None} <= {
            DecisionKey(one.strategy, pod=one.decision.pod) for one in standing
        }
        assert {(one.at, one.key) for one in history} <= {(one.at, one.key) for one in told}
        before = now


def test_others_may_ask_while_a_round_is_taken() -> None:
    kept, failed, done = DecisionLog(most=50), [], threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                kept.find(everything)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for at in range(300):
        kept.keep(float(at), [said(f"{at % 3}", pod=f"n/{i}") for i in range(at % 7)])
    done.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_four_hundred_decisions_a_round_cost_next_to_nothing() -> None:
    kept = DecisionLog()

    def round_(number: int) -> list[Said]:
        return [said("stands", number, pod=f"n/{i}", group=f"g/{i}") for i in range(400)]

    rounds = [round_(number) for number in range(10)]
    kept.keep(0.0, rounds[0])
    best = 1.0
    for number, one in enumerate(rounds[1:]):
        started = time.thread_time()
        assert kept.keep(float(number), one) == ()
        best = min(best, time.thread_time() - started)
    assert best < 0.005


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        ("0-3", "0-3"),
        (7, 7),
        (True, 1),
        (1.5, 1.5),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (np.float64(2.5), 2.5),
        (StrategyMode.ON, "on"),
    ],
    ids=str,
)
def test_numbers_as_json_has_them(value: float | str | None, wanted: float | str | None) -> None:
    found = plain(value)
    assert found == wanted
    assert type(found) is type(wanted)
