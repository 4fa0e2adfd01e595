"""The breaker, step by step and under any history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from koord_proxy.rules.breaker import FIRST_PAUSE, LONGEST_PAUSE, hook_breaker
from koord_service.breaker import Breaker, BreakerState

CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN

# What happens, and then: the state, and whether a call would be admitted.
HISTORIES = {
    "new": ((), CLOSED, True),
    "answered": (("admit", "answered"), CLOSED, True),
    "one failure opens": (("admit", "failed"), OPEN, False),
    "a late failure keeps it open": (("failed", "failed"), OPEN, False),
    "an answer closes": (("failed", "answered"), CLOSED, True),
    "a failed probe keeps it open": (("failed", "probe_failed"), OPEN, False),
    "an answered probe half opens": (("failed", "probe_answered"), HALF_OPEN, True),
    "one trial": (("failed", "probe_answered", "admit"), HALF_OPEN, False),
    "trial answered": (("failed", "probe_answered", "admit", "answered"), CLOSED, True),
    "trial failed": (("failed", "probe_answered", "admit", "failed"), OPEN, False),
    "trial given up": (("failed", "probe_answered", "admit", "withdrawn"), HALF_OPEN, True),
    "a probe while a trial runs": (
        ("failed", "probe_answered", "admit", "probe_answered"),
        HALF_OPEN,
        False,
    ),
    "a failed probe while a trial runs": (
        ("failed", "probe_answered", "admit", "probe_failed"),
        HALF_OPEN,
        False,
    ),
    "probes mean nothing to a closed one": (("probe_failed", "probe_answered"), CLOSED, True),
    "a withdrawn call means nothing to a closed one": (("admit", "withdrawn"), CLOSED, True),
}


def play(breaker: Breaker, *steps: str, now: float = 0.0) -> None:
    ticket = 0
    for step in steps:
        if step == "admit":
            ticket = breaker.admit()
        elif step == "withdrawn":
            breaker.withdrawn(ticket)
        elif step in ("failed", "probe_failed"):
            getattr(breaker, step)(now)
        else:
            getattr(breaker, step)()


@pytest.mark.parametrize("what", HISTORIES)
def test_history(what):
    steps, state, admits = HISTORIES[what]
    breaker = hook_breaker()
    play(breaker, *steps)
    assert breaker.state is state
    assert bool(breaker.admit()) is admits


def test_a_call_from_before_that_is_given_up_does_not_end_the_trial():
    breaker = hook_breaker()
    before = breaker.admit()
    play(breaker, "failed", "probe_answered")
    trial = breaker.admit()
    breaker.withdrawn(before)
    assert not breaker.admit()
    breaker.withdrawn(trial)
    assert breaker.admit()


def test_opening_and_an_answered_probe_are_news_once():
    breaker = hook_breaker()
    assert [breaker.failed(0) for _ in range(2)] == [True, False]
    assert [breaker.probe_answered() for _ in range(2)] == [True, False]
    breaker.admit()
    assert breaker.failed(0)


def pauses(breaker: Breaker, *, trials: bool) -> list[float]:
    """How long it waits, time after time, if nothing gets better."""
    now, found = 0.0, []
    breaker.failed(now)
    for _ in range(8):
        probe_at = now
        while not breaker.probe_due(probe_at):
            probe_at += 0.25
        found.append(probe_at - now)
        now = probe_at
        if trials:
            play(breaker, "probe_answered", "admit", "failed", now=now)
        else:
            breaker.probe_failed(now)
    return found


@pytest.mark.parametrize("trials", [False, True])
def test_it_waits_longer_and_longer_up_to_a_bound(trials):
    found = pauses(hook_breaker(), trials=trials)
    assert found[0] == FIRST_PAUSE
    assert all(2 * one == other for one, other in pairwise(found[:5]))
    assert found[-3:] == [LONGEST_PAUSE] * 3


def test_pauses_begin_anew_after_an_answer():
    breaker = hook_breaker()
    pauses(breaker, trials=False)
    breaker.answered()
    assert pauses(breaker, trials=False)[0] == FIRST_PAUSE


def test_a_sign_of_a_new_beginning_is_probed_at_once_and_pauses_begin_anew():
    breaker = hook_breaker()
    pauses(breaker, trials=False)
    assert breaker.hurry(1000)
    # The probe made now counts as the first.
    assert not breaker.probe_due(1000 + FIRST_PAUSE / 2)
    assert breaker.probe_due(1000 + FIRST_PAUSE)
    breaker.probe_failed(1000)
    assert breaker.probe_due(1000 + 2 * FIRST_PAUSE)
    assert breaker.state is OPEN


@pytest.mark.parametrize("steps", [(), ("failed", "probe_answered")])
def test_only_an_open_one_is_probed(steps):
    breaker = hook_breaker()
    play(breaker, *steps)
    before = breaker.state
    assert not breaker.probe_due(1e9)
    assert not breaker.hurry(0)
    assert not breaker.probe_answered()
    assert breaker.state is before


class Histories(RuleBasedStateMachine):
    """Calls that overlap, probes and late answers, in any order."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.breaker = hook_breaker()
        self.now = 0.0
        self.trials: set[int] = set()

    @rule(target=calls)
    def call(self) -> int:
        before = self.breaker.state
        ticket = self.breaker.admit()
        if before is CLOSED:
            assert ticket
        if before is OPEN:
            assert not ticket
        if before is HALF_OPEN and ticket:
            self.trials.add(ticket)
        return ticket

    @rule(call=consumes(calls))
    def answered(self, call: int) -> None:
        if call:
            self.breaker.answered()
            assert self.breaker.state is CLOSED
            self.trials.clear()
            self.given_back(call)

    @rule(call=consumes(calls))
    def failed(self, call: int) -> None:
        if call:
            was = self.breaker.state
            assert self.breaker.failed(self.now) is (was is not OPEN)
            assert self.breaker.state is OPEN
            assert not self.breaker.probe_due(self.now)
            assert self.breaker.probe_due(self.now + LONGEST_PAUSE)
            self.trials.clear()
            self.given_back(call)

    def given_back(self, call: int) -> None:
        """After something was learnt, giving the ticket back changes nothing."""
        before = self.breaker.state, self.breaker.admits
        self.breaker.withdrawn(call)
        assert (self.breaker.state, self.breaker.admits) == before

    @rule(call=consumes(calls))
    def withdrawn(self, call: int) -> None:
        if call:
            was = self.breaker.state
            self.breaker.withdrawn(call)
            assert self.breaker.state is was
            self.trials.discard(call)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1, 20]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(answered=st.booleans())
    def probe(self, answered: bool) -> None:
        if not self.breaker.probe_due(self.now):
            return
        assert self.breaker.state is OPEN
        if answered:
            self.breaker.probe_answered()
            assert self.breaker.state is HALF_OPEN
        else:
            self.breaker.probe_failed(self.now)
            assert not self.breaker.probe_due(self.now)

    @rule()
    def hurry(self) -> None:
        was = self.breaker.state
        assert self.breaker.hurry(self.now) is (was is OPEN)
        assert self.breaker.state is was
        assert self.breaker.probe_due(self.now + FIRST_PAUSE) is (was is OPEN)

    @rule()
    def late_answer(self) -> None:
        was = self.breaker.state
        self.breaker.probe_answered()
        assert self.breaker.state is (HALF_OPEN if was is OPEN else was)

    @invariant()
    def at_most_one_trial_and_none_is_barred_without(self) -> None:
        assert len(self.trials) <= 1
        if self.breaker.state is HALF_OPEN:
            assert self.breaker.admits is not bool(self.trials)


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=25)
