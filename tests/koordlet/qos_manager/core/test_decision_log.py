"""What is remembered of decisions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

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


def test_an_outcome_that_stays_is_not_new_and_has_the_newest_numbers() -> None:
    log = DecisionLog()
    [new] = log.keep(10.0, [said("a", 1.0)])
    assert (new.at, new.strategy, new.mode, new.until) == (10.0, "s", StrategyMode.ON, None)
    assert log.keep(11.0, [said("a", 2.0)]) == ()
    [standing], [entry] = log.find(everything)
    assert (standing.since, standing.said_at) == (10.0, 11.0)
    assert standing.decision.given[0].value == 2.0
    assert entry.decision.given[0].value == 1.0, "those that brought it about"
    assert entry.until is None


def test_another_outcome_or_mode_ends_the_one_before() -> None:
    log = DecisionLog()
    log.keep(10.0, [said("a")])
    assert outcomes(log.keep(11.0, [said("b")])) == ["b"]
    [standing], history = log.find(everything)
    assert (standing.decision.outcome, standing.since) == ("b", 11.0)
    ended = [(one.decision.outcome, one.at, one.until) for one in history]
    assert ended == [("b", 11.0, None), ("a", 10.0, 11.0)]
    [new] = log.keep(12.0, [("s", StrategyMode.SHADOW, said("b")[2])])
    assert new.mode is StrategyMode.SHADOW
    assert log.find(everything).standing[0].since == 12.0


def test_what_is_not_decided_any_more_is_over() -> None:
    log = DecisionLog()
    log.keep(10.0, [said("a"), said("a", strategy="other")])
    assert log.keep(11.0, [said("a", strategy="other")]) == ()
    standing, history = log.find(everything)
    assert [one.strategy for one in standing] == ["other"]
    assert {one.strategy: one.until for one in history} == {"s": 11.0, "other": None}
    assert outcomes(log.keep(12.0, [said("a")])) == ["a"], "it began anew"


def test_of_several_about_the_same_the_last_counts_and_others_are_apart() -> None:
    log = DecisionLog()
    for expected in (["b"], []):
        assert outcomes(log.keep(10.0, [said("a"), said("b")])) == expected
    round_ = [said("a", **about) for about in ({}, {"pod": "n/p"}, {"group": "g"}, {"aspect": "x"})]
    assert len(log.keep(11.0, round_)) == 4
    assert log.keep(12.0, round_) == ()
    assert len(log.keep(13.0, [*round_[:3], said("b", aspect="x")])) == 1


@pytest.mark.parametrize(
    ("wanted", "key", "found"),
    [
        # A group with those above and below it.
        *((of_group("kubepods/be"), {"group": f"kubepods{one}"}, True)
          for one in ("", "/be", "/be/podu", "/be/podu/c")),
        *((of_group("kubepods/be"), {"group": one}, False)
          for one in ("kubepods/be2", "kubepods/burstable", "")),
        # A pod with or without its namespace.
        *((of_pod(one), {"pod": "shop/web"}, True) for one in ("web", "shop/web")),
        *((of_pod(one), {"pod": "shop/web"}, False) for one in ("we", "shop", "test/web")),
        (of_pod("web"), {"pod": ""}, False),
        (of_evicted(""), {"aspect": EVICTED, "pod": "shop/web"}, True),
        (of_evicted(""), {"aspect": "eviction memory", "pod": "shop/web"}, True),
        (of_evicted("web"), {"aspect": EVICTED, "pod": "shop/web"}, True),
        (of_evicted("cart"), {"aspect": EVICTED, "pod": "shop/web"}, False),
        (of_evicted("web"), {"pod": "shop/web"}, False),
        (of_evicted("web"), {"aspect": "evictions", "pod": "shop/web"}, False),
        (of_evicted(""), {"aspect": "eviction memory", "pod": ""}, False),
        (of_strategies("a", "b"), {"strategy": "b"}, True),
        (of_strategies("a", "b"), {"strategy": "ab"}, False),
        (of_strategies(), {"strategy": "a"}, False),
    ],
)  # fmt: skip
def test_what_is_found(
    wanted: Callable[[DecisionKey], bool], key: dict[str, str], found: bool
) -> None:
    assert wanted(DecisionKey(**{"strategy": "s", **key})) is found


def test_only_what_is_wanted_is_found_and_not_more() -> None:
    log = DecisionLog()
    for at in range(8):
        log.keep(float(at), [said(f"{at}", pod="n/p"), said(f"{at}", pod="n/q")])
    standing, history = log.find(of_pod("p"), most=3)
    assert outcomes(standing) == ["7"]
    assert outcomes(history) == ["7", "6", "5"]
    assert log.find(of_pod("p"), most=0).history == ()


def test_an_evicted_pod_is_remembered_and_the_history_of_one_thing_is_bounded() -> None:
    log = DecisionLog(most=100, most_of_one=4)
    log.keep(1.0, [said("evicted", pod="n/p", aspect=EVICTED)])
    for at in range(2, 50):
        log.keep(float(at), [said(str(at))])
    standing, [entry] = log.find(of_evicted("p"))
    assert (standing, entry.at, entry.until) == ((), 1.0, 2.0)
    assert outcomes(log.find(everything).history) == ["49", "48", "47", "46", "evicted"]


def test_old_entries_go_first_where_there_are_too_many_but_what_stands_is_known() -> None:
    log = DecisionLog(most=2)
    log.keep(0.0, [said("long", pod="n/p")])
    for at in range(1, 9):
        log.keep(float(at), [said("long", pod="n/p"), said(str(at), pod=f"n/{at}")])
    assert [one.decision.pod for one in log.find(everything).history] == ["n/8", "n/7"]
    [standing], history = log.find(of_pod("p"))
    assert (standing.since, standing.said_at, history) == (0.0, 8.0, ())
    assert log.keep(9.0, [said("other", pod="n/p")]) != ()


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
    log = DecisionLog(most, most_of_one)
    before: dict[tuple[str, str], str] = {}
    logged: list[DecisionRecord] = []
    for at, round_ in enumerate(rounds):
        now = {(strategy, pod): outcome for strategy, pod, outcome in round_}
        new = log.keep(at, [said(o, at, strategy=s, pod=p) for s, p, o in round_])
        logged += new
        changed = {key for key, outcome in now.items() if before.get(key) != outcome}
        assert {(one.strategy, one.decision.pod) for one in new} == changed
        standing, history = log.find(everything)
        assert {(one.strategy, one.decision.pod): one.decision.outcome for one in standing} == now
        assert len(history) <= most
        by_key = [one.key for one in history]
        assert all(by_key.count(key) <= most_of_one for key in by_key)
        assert [one.at for one in history] == sorted((one.at for one in history), reverse=True)
        # Only what stands has no end; and what is there was logged, as it is there.
        assert {one.key for one in history if one.until is None} <= {
            DecisionKey(one.strategy, pod=one.decision.pod) for one in standing
        }
        assert {(one.at, one.key) for one in history} <= {(one.at, one.key) for one in logged}
        before = now


def test_others_may_ask_while_a_round_is_taken() -> None:
    log, failed, done = DecisionLog(most=50), [], threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                log.find(everything)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for at in range(300):
        log.keep(float(at), [said(f"{at % 3}", pod=f"n/{i}") for i in range(at % 7)])
    done.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_four_hundred_decisions_a_round_cost_next_to_nothing() -> None:
    log = DecisionLog()

    def round_(number: int) -> list[Said]:
        return [said("stands", number, pod=f"n/{i}", group=f"g/{i}") for i in range(400)]

    rounds = [round_(number) for number in range(10)]
    log.keep(0.0, rounds[0])
    best = 1.0
    for number, one in enumerate(rounds[1:]):
        started = time.thread_time()
        assert log.keep(float(number), one) == ()
        best = min(best, time.thread_time() - started)
    assert best < 0.005


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((None, "0-3", 7, 1.5), (None, "0-3", 7, 1.5)),
        ((True, np.float64(2.5), StrategyMode.ON), (1, 2.5, "on")),
        ((float("inf"), float("nan")), ("inf", "nan")),
    ],
)
def test_numbers_as_json_has_them(values: tuple[Any, ...], expected: tuple[object, ...]) -> None:
    found = [plain(one) for one in values]
    assert [(type(one), one) for one in found] == [(type(one), one) for one in expected]
