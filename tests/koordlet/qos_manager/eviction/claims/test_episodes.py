"""How long a threshold has been passed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims.episodes import FORGET_SECONDS, ThresholdEpisode, advance

AT_10 = ThresholdEpisode(0.0, 10.0)


@pytest.mark.parametrize(
    ("before", "passed", "now", "after"),
    [
        (None, True, 10.0, ThresholdEpisode(10.0, 10.0)),
        (AT_10, True, 25.0, ThresholdEpisode(0.0, 25.0)),
        (AT_10, False, 26.0, None),
        (None, None, 10.0, None),
        (AT_10, None, 10.0 + FORGET_SECONDS, AT_10),
        (AT_10, None, 10.1 + FORGET_SECONDS, None),
        (
            ThresholdEpisode(0.0, 10.0, going=2.0),
            True,
            12.0,
            ThresholdEpisode(0.0, 12.0, going=2.0),
        ),
    ],
    ids=["begins", "lasts", "ends", "not known", "not known for a while", "for long", "going"],
)
def test_an_episode_lasts_from_the_first_time_to_the_last(
    before: ThresholdEpisode | None,
    passed: bool | None,
    now: float,
    after: ThresholdEpisode | None,
) -> None:
    assert advance(before, passed, now) == after


def test_it_knows_its_length_who_was_warned_and_when_a_pod_was_last_on_its_way_out() -> None:
    assert ThresholdEpisode(10.0, 25.0).lasted(30.0) == 20.0
    going = advance(AT_10, True, 12.0, going=True)
    assert going == ThresholdEpisode(0.0, 12.0, going=12.0)
    episode = ThresholdEpisode(0.0, 1.0, warned=frozenset({"a"}))
    assert episode.with_warned(["a"]) is episode
    assert episode.with_warned(["b"]).warned == {"a", "b"}


@given(st.lists(st.sampled_from([True, None, False]), max_size=30))
def test_an_episode_is_as_long_as_the_run_without_a_break(known: list[bool | None]) -> None:
    episode = None
    for second, passed in enumerate(known):
        episode = advance(episode, passed, float(second))
    since_break = known[len(known) - known[::-1].index(False) :] if False in known else known
    if True not in since_break:
        assert episode is None
    else:
        began = len(known) - len(since_break) + since_break.index(True)
        assert episode is not None
        assert episode.since == began
