"""How long a threshold has been passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koordlet.qos_manager.eviction.claims.episodes import FORGET_SECONDS, ThresholdEpisode, advance

AT_10 = ThresholdEpisode(0.0, 10.0)


def test_what_is_not_known_ends_an_episode_only_after_a_while() -> None:
    assert advance(AT_10, None, 10.0 + FORGET_SECONDS) == AT_10
    assert advance(AT_10, None, 10.1 + FORGET_SECONDS) is None


def test_it_knows_its_length_the_warned_pods_and_when_one_was_last_on_its_way_out() -> None:
    assert ThresholdEpisode(10.0, 25.0).lasted(30.0) == 20.0
    going = advance(AT_10, True, 12.0, going=True)
    assert going == ThresholdEpisode(0.0, 12.0, going=12.0)
    assert advance(going, True, 15.0) == ThresholdEpisode(0.0, 15.0, going=12.0)
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
