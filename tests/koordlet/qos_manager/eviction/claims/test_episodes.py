"""How long a threshold has been passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims.episodes import FORGET_SECONDS, ThresholdEpisode, advance


def test_an_episode_lasts_from_the_first_time_to_the_last() -> None:
    first = advance(None, True, 10.0)
    assert first == ThresholdEpisode(10.0, 10.0)
    later = advance(first, True, 25.0)
    assert later == ThresholdEpisode(10.0, 25.0)
    assert later.lasted(30.0) == 20.0
    assert advance(later, False, 26.0) is None


def test_what_is_not_known_begins_nothing_and_ends_it_only_after_a_while() -> None:
    assert advance(None, None, 10.0) is None
    episode = ThresholdEpisode(0.0, 10.0)
    assert advance(episode, None, 10.0 + FORGET_SECONDS) is episode
    assert advance(episode, None, 10.1 + FORGET_SECONDS) is None


def test_it_is_remembered_when_a_pod_was_last_on_its_way_out() -> None:
    episode = advance(ThresholdEpisode(0.0, 1.0), True, 2.0, going=True)
    assert episode == ThresholdEpisode(0.0, 2.0, going=2.0)
    assert advance(episode, True, 5.0) == ThresholdEpisode(0.0, 5.0, going=2.0)


def test_who_was_told_is_told_once() -> None:
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
