"""A cache keeps as many bytes as it may, whatever its values grow to."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.state.lru_cache import LRUCache


@dataclass
class Value:
    size: int


@given(
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 60), st.booleans())),
    st.integers(0, 3),
)
def test_it_holds_what_fits(steps: list[tuple[str, int, bool]], fewest: int) -> None:
    cache: LRUCache[str, Value] = LRUCache(100, fewest)
    for key, size, is_removed in steps:
        if is_removed:
            cache.remove(key)
            continue
        value = cache.get(key)
        if value is None:
            value = Value(0)
            cache.add(key, value)
        value.size = size  # it grows while it is used
    cache.add("last", Value(0))
    assert cache.size == sum(value.size for value in cache._values.values())
    assert cache.size <= 100 or len(cache._values) <= max(fewest, 1)


def test_what_is_empty_once_does_not_unbound_it() -> None:
    cache: LRUCache[int, Value] = LRUCache(100, fewest=1)
    cache.add(-1, Value(0))
    for key in range(50):
        cache.add(key, Value(30))
    assert len(cache._values) <= 5
