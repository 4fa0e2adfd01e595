from __future__ import annotations

from koord_manager.profiles.core.placing import inside, placed


def test_what_is_not_there_or_no_object_is_empty() -> None:
    assert inside({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    assert inside({"a": None}, "a", "b") == {}
    assert inside({"a": ["b"]}, "a", "b") == {}


def test_a_value_is_placed_in_a_copy() -> None:
    beside = {"x": 1}
    given = {"a": {"b": 1}, "beside": beside}
    found = placed(given, 2, "a", "c", "d")
    assert found == {"a": {"b": 1, "c": {"d": 2}}, "beside": beside}
    assert given == {"a": {"b": 1}, "beside": beside}
    assert found["beside"] is beside
