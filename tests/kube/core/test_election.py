"""Elections: the rules one by one, and candidates that suffer what befalls programs."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.core.election import (
    Election,
    ElectionStep,
    ElectionTiming,
    LeaderElectionRecord,
    LeaseAction,
    record_of,
    released_record,
    with_record,
)
from koord_kube.protocol.api import ApiError

OTHERS = LeaderElectionRecord("other", 15, "a", "r1", 3)
READ_LATER = ElectionStep(LeaseAction.READ, 2.0)
EXPIRES_SOON = ElectionStep(LeaseAction.READ, 0.5)
RENEW_LATER = ElectionStep(LeaseAction.REPLACE, 2.0)


def candidate(identity: str = "me", chance: Callable[[], float] = lambda: 0.0) -> Election:
    return Election(identity, ElectionTiming(), chance)


def leading(at: float = 0.0, version: int = 7) -> Election:
    election = candidate()
    assert election.absent(at) == ElectionStep(LeaseAction.CREATE)
    assert election.written(election.desired_record("t0"), version, at, at) == RENEW_LATER
    return election


class TestRecord:
    def test_a_lease_there_and_back(self) -> None:
        lease = {
            "metadata": {"name": "l", "labels": {"a": "b"}},
            "spec": {
                "holderIdentity": "other",
                "leaseDurationSeconds": 15,
                "acquireTime": "a",
                "renewTime": "r1",
                "leaseTransitions": 3,
                "strategy": "OldestEmulationVersion",
            },
        }
        assert record_of(lease) == OTHERS
        assert with_record(lease, OTHERS) == lease

    @pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {"holderIdentity": None}}])
    def test_one_that_was_never_held(self, lease: dict[str, object]) -> None:
        assert record_of(lease) == LeaderElectionRecord()

    @pytest.mark.parametrize("spec", [{"holderIdentity": 3}, {"leaseDurationSeconds": "x"}, "x"])
    def test_one_in_another_form(self, spec: object) -> None:
        with pytest.raises(ApiError, match="the record is not one of an election"):
            record_of({"spec": spec})

    def test_it_is_given_back_as_client_go_does(self) -> None:
        assert released_record(OTHERS, "t") == LeaderElectionRecord("", 1, "t", "t", 3)


@pytest.mark.parametrize(
    "numbers", [(10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0), (15, 16.0, 2.0)]
)
def test_invalid_timing(numbers: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="leader election with a lease of"):
        ElectionTiming(*numbers)


def other(seconds: int = 15, renewed: str = "r1") -> LeaderElectionRecord:
    return LeaderElectionRecord("other", seconds, "a", renewed, 3)


CREATE, REPLACE = ElectionStep(LeaseAction.CREATE), ElectionStep(LeaseAction.REPLACE)
READS: dict[str, list[tuple[LeaderElectionRecord | None, float, ElectionStep]]] = {
    "never held": [(LeaderElectionRecord(), 5.0, REPLACE)],
    "released": [(LeaderElectionRecord("", 1, "a", "r", 3), 5.0, REPLACE)],
    "not renewed": [(other(4), 100, READ_LATER), (other(4), 103.5, EXPIRES_SOON),
                    (other(4), 104, REPLACE)],
    "renewed": [(other(renewed=f"r{turn}"), turn * 14.0, READ_LATER) for turn in range(10)],
    "of long ago": [(other(renewed="1970-01-01T00:00:00Z"), 1e9, READ_LATER)],
    "without a duration": [(other(0), 0, READ_LATER), (other(0), 15, REPLACE)],
    "deleted": [(other(), 0, READ_LATER), (None, 14.5, EXPIRES_SOON), (None, 15, CREATE)],
}  # fmt: skip
"""Of a Lease: what is read, when, and what is to be done then."""


class TestTaking:
    def test_where_there_is_no_lease(self) -> None:
        election = leading(version=7)
        assert (election.leads(9.9), election.leads(10.0)) == (True, False)
        assert (election.leader, election.term) == ("me", 7)

    @pytest.mark.parametrize("reads", READS.values(), ids=READS)
    def test_where_there_is_one(
        self, reads: list[tuple[LeaderElectionRecord | None, float, ElectionStep]]
    ) -> None:
        election = candidate()
        for record, at, step in reads:
            found = election.found(record, 8, at) if record else election.absent(at)
            assert found == step
            if record:
                assert election.leader == record.holder
                taken = LeaderElectionRecord("me", 15, "t", "t", record.transitions + 1)
                assert election.desired_record("t") == taken
            assert not election.leads(at)

    def test_its_own_after_an_answer_was_lost(self) -> None:
        election = candidate()
        election.absent(0.0)
        written = election.desired_record("t0")
        assert election.failed() == READ_LATER
        assert election.found(written, 8, 2.0) == REPLACE
        assert not election.leads(2.0)
        assert election.desired_record("t2") == LeaderElectionRecord("me", 15, "t0", "t2", 0)


class TestLeading:
    def test_renewing(self) -> None:
        election = leading(version=7)
        assert election.desired_record("t1") == LeaderElectionRecord("me", 15, "t0", "t1", 0)
        election.written(election.desired_record("t1"), 9, 3.0, 5.0)
        assert (election.leads(12.9), election.leads(13.0), election.term) == (True, False, 7)
        assert (election.seconds_left(4.0), election.seconds_left(20.0)) == (9.0, 0.0)

    def test_it_ends_by_itself_and_is_another_term_then(self) -> None:
        election = leading(version=7)
        assert election.failed() == READ_LATER
        assert not election.leads(10.0)
        election.written(election.desired_record("t1"), 9, 9.0, 11.0)
        assert (election.leads(11.0), election.term) == (True, 9)

    def test_an_answer_that_comes_after_its_own_deadline_is_worth_nothing(self) -> None:
        election = candidate()
        election.absent(0.0)
        assert election.written(election.desired_record("t"), 7, 0.0, 10.0) == READ_LATER
        assert (election.leads(10.0), election.term) == (False, 0)

    def test_another_has_it(self) -> None:
        election = leading()
        assert election.found(OTHERS, 8, 3.0) == READ_LATER
        assert (election.leads(3.0), election.leader) == (False, "other")

    def test_stopped_is_stopped(self) -> None:
        election = leading()
        election.stop()
        assert not election.leads(0.0)
        election.written(election.desired_record("t1"), 9, 1.0, 1.0)
        assert not election.leads(1.0)


@pytest.mark.parametrize(("asked", "wait"), [(0.0, 2.0), (1.0, 2.0), (3.0, 3.0), (300.0, 5.0)])
def test_a_server_s_pause_is_respected_within_the_deadline(asked: float, wait: float) -> None:
    assert leading().failed(asked) == ElectionStep(LeaseAction.READ, wait)


def test_candidates_do_not_keep_step() -> None:
    assert candidate(chance=lambda: 1.0).failed().wait == pytest.approx(2.4)


class TestWatching:
    def test_what_is_newer_counts_as_if_it_was_read(self) -> None:
        election = candidate()
        election.found(other(4), 8, 0.0)
        assert election.observed(other(4, "r2"), 9, 3.0) == READ_LATER
        assert election.observed(other(4, "r3"), 10, 6.5) == READ_LATER
        assert election.found(other(4, "r3"), 10, 10.0) == EXPIRES_SOON
        assert election.observed(released_record(OTHERS, "t"), 11, 10.1) == REPLACE

    def test_what_is_not_newer_changes_nothing(self) -> None:
        election = leading(version=7)
        for version in (6, 7):
            assert election.observed(OTHERS, version, 1.0) is None
        assert (election.leads(1.0), election.leader) == (True, "me")

    def test_a_leader_learns_who_has_its_lease(self) -> None:
        election = leading(version=7)
        assert election.observed(OTHERS, 8, 1.0) == READ_LATER
        assert (election.leads(1.0), election.leader) == (False, "other")

    def test_versions_that_begin_anew_are_taken_from_what_is_read(self) -> None:
        election = leading(version=700)
        election.found(OTHERS, 5, 1.0)
        assert election.observed(released_record(OTHERS, "t"), 6, 1.0) == REPLACE


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 0.0), (0.5, 0.1), (1.0, 0.2)])
def test_those_who_waited_do_not_take_a_free_lease_all_at_once(chance: float, wait: float) -> None:
    election = candidate(chance=lambda: chance)
    free = released_record(OTHERS, "t")
    assert election.found(free, 7, 0.0) == REPLACE
    election.found(OTHERS, 8, 0.0)
    assert election.found(OTHERS, 8, 15.0) == ElectionStep(LeaseAction.REPLACE, wait)
    assert election.absent(15.0) == ElectionStep(LeaseAction.CREATE, wait)
    assert election.found(free, 9, 15.0) == ElectionStep(LeaseAction.REPLACE, wait)
    own = election.desired_record("t")
    election.written(own, 10, 15.0, 15.0)
    assert election.found(own, 11, 15.0) == REPLACE


# Candidates in a world of true time, each with a clock of its own.


@dataclass
class Server:
    """One Lease under optimistic concurrency; ``follow`` is called for each of its versions."""

    follow: Callable[[LeaderElectionRecord, int], None]
    record: LeaderElectionRecord | None = None
    version: int = 100

    def create(self, record: LeaderElectionRecord) -> int | None:
        return self._write(record) if self.record is None else None

    def replace(self, record: LeaderElectionRecord, version: int) -> int | None:
        return self._write(record) if version == self.version else None

    def _write(self, record: LeaderElectionRecord) -> int:
        self.record, self.version = record, self.version + 1
        self.follow(record, self.version)
        return self.version


@dataclass(frozen=True)
class Weather:
    """What befalls one request: true seconds to the server, back, and of the program's pause."""

    there: float
    back: float
    lost: bool
    pause: float


CALM = Weather(0.01, 0.01, False, 0.0)
FIRST = ElectionStep(LeaseAction.READ)


@dataclass
class Candidate:
    election: Election
    rate: float
    offset: float
    weather: list[Weather]
    lags: list[float] | None = None
    """By how many seconds its watch is behind, in turns; ``None`` without a watch."""
    step: ElectionStep = FIRST
    version: int = 0
    asked: int = 0
    is_asking: bool = False
    shown: tuple[LeaderElectionRecord, int] | None = None
    shown_until: float = 0.0

    def clock(self, at: float) -> float:
        return self.offset + self.rate * at

    def leads(self, at: float) -> bool:
        return self.election.leads(self.clock(at))


class World:
    """Lets true time pass from event to event; after each nobody may lead beside another."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.server = Server(self._follow)
        self.candidates = candidates
        self._number = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self.now = 0.0
        self.writes: list[tuple[float, str]] = []
        self.terms: list[int] = []
        self.began: list[float] = []
        for one in candidates:
            self._at(0.0, lambda at, one=one: self._send(one, at))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            at, _, happens = heapq.heappop(self._events)
            self.now = at
            happens(at)
            leading = [one.election for one in self.candidates if one.leads(at)]
            assert len(leading) <= 1, (at, [one.identity for one in leading])
            assert [one.term for one in leading] in ([], self.terms[-1:])

    def release(self, one: Candidate) -> None:
        """What its ``LeaseElector`` does, in one go."""
        one.election.stop()
        one.asked += 1
        record = self.server.record
        assert record is not None
        assert self.server.replace(released_record(record, "t"), self.server.version)

    def _follow(self, record: LeaderElectionRecord, version: int) -> None:
        """Show it to all who watch, in order, each behind by a time of its own."""
        self.writes.append((self.now, record.holder))
        for one in self.candidates:
            if one.lags is not None:
                lag = one.lags[version % len(one.lags)]
                one.shown_until = max(one.shown_until, self.now + lag)
                self._at(
                    one.shown_until,
                    lambda at, one=one: self._show(one, (record, version), at),
                )

    def _show(self, one: Candidate, shown: tuple[LeaderElectionRecord, int], at: float) -> None:
        one.shown = shown
        if not one.is_asking:
            self._observe(one, at)

    def _observe(self, one: Candidate, at: float) -> None:
        if one.shown is None or one.election.stopped:
            return
        (record, version), one.shown = one.shown, None
        step = one.election.observed(record, version, one.clock(at))
        if step is not None:
            one.step, one.version = step, version
            self._wait(one, at)

    def _at(self, at: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._number), happens))

    def _send(self, one: Candidate, at: float) -> None:
        weather = one.weather.pop() if one.weather else CALM
        one.asked += 1
        one.is_asking = True
        asked, asked_at = one.asked, one.clock(at)
        action, version = one.step.action, one.version
        record = one.election.desired_record(f"{one.election.identity} {asked_at}")

        def applies(now: float) -> None:
            answer = self._answer(action, record, version)
            if not weather.lost:
                self._at(now + weather.back + weather.pause, lambda end: hears(end, answer))

        def hears(now: float, answer: tuple[LeaderElectionRecord | None, int | None]) -> None:
            if one.asked == asked:  # otherwise it was given up
                one.step = self._heard(one, action, record, answer, asked_at, now)
                self._next(one, now)

        def gives_up(now: float) -> None:
            if one.asked == asked:
                one.step = one.election.failed()
                self._next(one, now)

        self._at(at + weather.there, applies)
        self._at(at + 5.0 / one.rate + weather.pause, gives_up)

    def _next(self, one: Candidate, now: float) -> None:
        one.is_asking = False
        self._wait(one, now)
        self._observe(one, now)

    def _wait(self, one: Candidate, now: float) -> None:
        one.asked += 1
        asked = one.asked

        def sends(at: float) -> None:
            if one.asked == asked:
                self._send(one, at)

        self._at(now + one.step.wait / one.rate, sends)

    def _answer(
        self, action: LeaseAction, record: LeaderElectionRecord, version: int
    ) -> tuple[LeaderElectionRecord | None, int | None]:
        if action is LeaseAction.READ:
            return self.server.record, self.server.version
        if action is LeaseAction.CREATE:
            return record, self.server.create(record)
        return record, self.server.replace(record, version)

    def _heard(
        self,
        one: Candidate,
        action: LeaseAction,
        record: LeaderElectionRecord,
        answer: tuple[LeaderElectionRecord | None, int | None],
        asked_at: float,
        now: float,
    ) -> ElectionStep:
        found, version = answer
        clock = one.clock(now)
        if version is None:
            return one.election.failed()
        one.version = version
        if action is LeaseAction.READ:
            if found is None:
                return one.election.absent(clock)
            return one.election.found(found, version, clock)
        before = one.election.term
        step = one.election.written(record, version, asked_at, clock)
        if one.election.term != before:
            self.terms.append(one.election.term)
            self.began.append(now)
        return step


brief = st.sampled_from([0.0, 0.01, 1.0])
weather = st.one_of(
    st.just(CALM),
    st.builds(Weather, brief, brief, st.just(True), st.just(0.0)),
    st.builds(Weather, brief, brief, st.just(False), st.floats(0.0, 40.0)),
    st.builds(Weather, st.floats(0.0, 30.0), st.floats(0.0, 30.0), st.booleans(), brief),
)
storm = st.lists(
    st.tuples(weather, st.integers(1, 8)).map(lambda drawn: [drawn[0]] * drawn[1]), max_size=8
).map(lambda parts: [one for part in parts for one in part])
rate = st.sampled_from([0.82, 1.0, 1.18])
lags = st.none() | st.lists(st.sampled_from([0.0, 0.05, 1.0, 30.0]), min_size=1, max_size=4)
CandidateParts = tuple[float, float, list[Weather], list[float], list[float] | None]
worlds = st.lists(
    st.tuples(
        rate,
        st.floats(0.0, 1e6),
        storm,
        st.lists(st.floats(0, 1), min_size=1, max_size=5),
        lags,
    ),
    min_size=2,
    max_size=3,
)


def world(drawn: list[CandidateParts]) -> World:
    return World(
        [
            Candidate(
                Election(f"c{index}", ElectionTiming(), itertools.cycle(chances).__next__),
                rate,
                offset,
                list(storm),
                lags,
            )
            for index, (rate, offset, storm, chances, lags) in enumerate(drawn)
        ]
    )


def with_a_leader(at: float, *rates: float, lags: list[float] | None) -> tuple[World, Candidate]:
    made = world([(one, 9.0, [], [0.1, 0.5, 0.9], lags) for one in rates])
    made.run(at)
    [leader] = [one for one in made.candidates if one.leads(at)]
    return made, leader


MOST_SECONDS = 2000.0


@given(worlds)
def test_two_never_lead_at_once_and_in_the_end_one_does(drawn: list[CandidateParts]) -> None:
    made = world(drawn)
    end = 100.0
    while any(one.weather for one in made.candidates) and end < MOST_SECONDS:
        made.run(end)
        end += 100.0
    # Whose watch shows all in time asks for nothing, and meets no more weather.
    for one in made.candidates:
        one.weather.clear()
    end += 100.0
    made.run(end)
    assert sum(one.leads(end) for one in made.candidates) == 1
    assert made.terms == sorted(set(made.terms))


WITHOUT_A_WATCH = 2 * 2.0 * 1.2 / 0.82  # a pause before the last renewal was seen
WATCHES = [(None, WITHOUT_A_WATCH), ([0.05], 0.5)]
"""By how many seconds watches are behind, and within how many the next one leads."""


@pytest.mark.parametrize(("lags", "within"), WATCHES)
@given(rates=st.lists(rate, min_size=2, max_size=4), at=st.floats(1.0, 60.0))
def test_when_the_leader_is_gone_the_next_one_leads_soon(
    lags: list[float] | None, within: float, rates: list[float], at: float
) -> None:
    made, leader = with_a_leader(at, *rates, lags=lags)
    leader.weather = [Weather(0.0, 0.0, True, 1e9)] * 3
    made.run(at + 40.0)
    [successor] = [one for one in made.candidates if one.leads(at + 40.0)]
    assert successor is not leader
    others = [one.rate for one in made.candidates if one is not leader]
    renewed = max(when for when, holder in made.writes if holder == leader.election.identity)
    expired = renewed + 15.0 / max(others)
    assert expired < made.began[-1] <= expired + within
    assert successor.election.term == max(made.terms)


@pytest.mark.parametrize(("lags", "within"), WATCHES)
@given(rates=st.lists(rate, min_size=2, max_size=4), at=st.floats(1.0, 60.0))
def test_when_the_leader_releases_the_next_one_leads_soon(
    lags: list[float] | None, within: float, rates: list[float], at: float
) -> None:
    made, leader = with_a_leader(at, *rates, lags=lags)
    made.release(leader)
    made.run(at + 20.0)
    assert len(made.terms) == 2
    assert made.began[-1] <= at + within
