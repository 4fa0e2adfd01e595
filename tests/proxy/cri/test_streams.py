"""The life of a stream, as its table says it; what follows from it is for the session's tests."""

from __future__ import annotations

import pytest
from koord_proxy.contract.events import Tally
from koord_proxy.cri.streams import TRANSITIONS, Phase, Stream, StreamEvent, StreamTable


def table(phase: Phase, *, client_done: bool = False) -> StreamTable:
    stream = Stream(Phase.COLLECTING, Tally())
    stream.phase, stream.client_done = phase, client_done
    return StreamTable({1: stream})


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.GONE])
@pytest.mark.parametrize("event", list(StreamEvent))
def test_what_is_not_listed_changes_nothing_and_only_who_is_gone_is_forgotten(phase, event):
    streams = table(phase)
    after = streams.move(1, event)
    assert after is TRANSITIONS.get((phase, event), phase)
    assert (1 in streams) is (after is not Phase.GONE)


def test_every_phase_leads_to_the_end_and_nothing_leads_back_from_it():
    for phase in Phase:
        reached, before = {phase}, set()
        while reached != before:
            before = set(reached)
            reached |= {after for (start, _), after in TRANSITIONS.items() if start in before}
        assert Phase.GONE in reached
    assert not [start for start, _ in TRANSITIONS if start is Phase.GONE]


def test_the_request_of_a_call_is_released_or_refused_once():
    for event in (StreamEvent.RELEASE, StreamEvent.REFUSE):
        streams = table(Phase.DECIDING)
        decided = streams.move(1, event)
        for again in (StreamEvent.RELEASE, StreamEvent.REFUSE):
            assert streams.move(1, again) is decided


@pytest.mark.parametrize(
    ("phase", "event"),
    [(Phase.REFUSED, StreamEvent.RESET_CONFIRMED), (Phase.RELEASED, StreamEvent.RESPONSE_END)],
)
@pytest.mark.parametrize("client_done", [False, True])
def test_an_answered_stream_stays_until_the_client_is_done(phase, event, client_done):
    streams = table(phase, client_done=client_done)
    assert streams.move(1, event) is (Phase.GONE if client_done else Phase.ANSWERED)
