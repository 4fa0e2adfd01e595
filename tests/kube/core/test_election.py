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
            assert (election.found(record, at) if record else election.absent(at)) == step
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
        assert election.found(written, 2.0) == REPLACE
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
        assert election.found(OTHERS, 3.0) == READ_LATER
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


# Candidates in a world of true time, each with a clock of its own.


@dataclass
class Server:
    """One Lease under optimistic concurrency."""

    record: LeaderElectionRecord | None = None
    version: int = 100

    def create(self, record: LeaderElectionRecord) -> int | None:
        return self._write(record) if self.record is None else None

    def replace(self, record: LeaderElectionRecord, version: int) -> int | None:
        return self._write(record) if version == self.version else None

    def _write(self, record: LeaderElectionRecord) -> int:
        self.record, self.version = record, self.version + 1
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
    step: ElectionStep = FIRST
    version: int = 0
    asked: int = 0

    def clock(self, at: float) -> float:
        return self.offset + self.rate * at

    def leads(self, at: float) -> bool:
        return self.election.leads(self.clock(at))


class World:
    """Lets true time pass from event to event; after each nobody may lead beside another."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.server = Server()
        self.candidates = candidates
        self._number = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self.terms: list[int] = []
        for one in candidates:
            self._at(0.0, lambda at, one=one: self._send(one, at))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            at, _, happens = heapq.heappop(self._events)
            happens(at)
            leading = [one.election for one in self.candidates if one.leads(at)]
            assert len(leading) <= 1, (at, [one.identity for one in leading])
            assert [one.term for one in leading] in ([], self.terms[-1:])

    def _at(self, at: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._number), happens))

    def _send(self, one: Candidate, at: float) -> None:
        weather = one.weather.pop() if one.weather else CALM
        one.asked += 1
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
        one.asked += 1
        self._at(now + one.step.wait / one.rate, lambda at: self._send(one, at))

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
            return one.election.found(found, clock) if found else one.election.absent(clock)
        before = one.election.term
        step = one.election.written(record, version, asked_at, clock)
        if one.election.term != before:
            self.terms.append(one.election.term)
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
worlds = st.lists(
    st.tuples(
        rate,
        st.floats(0.0, 1e6),
        storm,
        st.lists(st.floats(0, 1), min_size=1, max_size=5),
    ),
    min_size=2,
    max_size=3,
)


def world(drawn: list[tuple[float, float, list[Weather], list[float]]]) -> World:
    return World(
        [
            Candidate(
                Election(f"c{index}", ElectionTiming(), itertools.cycle(chances).__next__),
                rate,
                offset,
                list(storm),
            )
            for index, (rate, offset, storm, chances) in enumerate(drawn)
        ]
    )


@given(worlds)
def test_two_never_lead_at_once_and_in_the_end_one_does(
    drawn: list[tuple[float, float, list[Weather], list[float]]],
) -> None:
    made = world(drawn)
    end = 100.0
    while any(one.weather for one in made.candidates):
        made.run(end)
        end += 100.0
    made.run(end)
    assert sum(one.leads(end) for one in made.candidates) == 1
    assert made.terms == sorted(set(made.terms))


@given(rate, rate, st.floats(0.0, 60.0))
def test_when_the_leader_is_gone_the_next_one_leads_soon(
    first: float, second: float, at: float
) -> None:
    made = world([(first, 0.0, [], [0.5]), (second, 9.0, [], [0.5])])
    made.run(at + 1.0)
    [leader] = [one for one in made.candidates if one.leads(at + 1.0)]
    leader.weather = [Weather(0.0, 0.0, True, 1e9)] * 3
    made.run(at + 40.0)
    [successor] = [one for one in made.candidates if one is not leader]
    assert successor.leads(at + 40.0)
    assert successor.election.term == max(made.terms)
