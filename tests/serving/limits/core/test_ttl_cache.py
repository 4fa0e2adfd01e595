from __future__ import annotations

from koord_serving.limits.core.ttl_cache import TTLCache


def test_an_answer_is_good_for_a_while_and_stands_in_for_longer() -> None:
    known: TTLCache[str, int] = TTLCache(10)
    known.put("a", 1, now=0, fresh=10, held=30)
    assert (known.get("a", 9.9), known.get("a", 10)) == (1, None)
    assert (known.held("a", 29.9), known.held("a", 30)) == (1, None)
    known.put("a", 2, now=50, fresh=10)
    assert (known.get("a", 59), known.held("a", 60)) == (2, None)
    known.put("a", 1, now=0, fresh=10, held=30)
    known.forget("a")
    known.forget("b")
    assert known.get("a", 1) is known.held("a", 1) is known.get("b", 0) is None


def test_the_oldest_are_forgotten() -> None:
    known: TTLCache[str, int] = TTLCache(2)
    for number, key in enumerate("abac"):
        known.put(key, number, now=0, fresh=10)
    assert len(known) == 2
    assert [known.get(key, 1) for key in "abc"] == [2, None, 3]
