from collections.abc import Callable
from enum import StrEnum

import pytest
from koord_model.fields import Fields


class Colour(StrEnum):
    NONE = ""
    RED = "red"
    BLUE = "blue"


NONE, RED, BLUE = Colour


def read(given: object) -> tuple[Fields, list[str]]:
    ignored: list[str] = []
    return Fields(given, "thing", ignored), ignored


def test_fields_that_are_there_are_taken_in_silence() -> None:
    given = {"on": True, "size": 3, "colour": "blue", "name": "x", "in": {"size": 4}}
    fields, ignored = read(given)
    assert fields.flag("on", default=False)
    assert fields.number("size", 1, 0, 9) == 3
    assert fields.word("colour", Colour.RED) is Colour.BLUE
    assert fields.text("name") == "x"
    assert fields.of("in").number("size", 1, 0, 9) == 4
    assert ignored == []


@pytest.mark.parametrize("given", [{}, None, {"size": None, "in": None, "list": None}])
def test_what_is_absent_or_null_has_its_default_in_silence(given: object) -> None:
    fields, ignored = read(given)
    assert fields.number("size", 1, 0, 9) == 1
    assert fields.of("in").flag("on", default=True)
    assert list(fields.objects("list")) == []
    assert not fields.has("size")
    assert ignored == []


def test_an_empty_word_is_as_if_it_were_absent() -> None:
    fields, ignored = read({"colour": ""})
    assert fields.word("colour", Colour.BLUE) is Colour.BLUE
    assert ignored == []


def test_entries_are_all_that_is_there_whatever_it_is() -> None:
    fields, _ = read({"a": 1, "b": None, "c": [], "d": False})
    assert list(fields.entries()) == [("a", 1), ("c", []), ("d", False)]


@pytest.mark.parametrize(
    ("name", "shown"), [("a\nb", '"a\\nb"'), ("", '""'), ("a" * 500, '"aaa'), ("a b", "a b")]
)
def test_a_name_that_may_be_anything_leaves_the_line_a_line(name: str, shown: str) -> None:
    fields, ignored = read({"in": {name: 7}})
    fields.of("in").refuse(name, "an object", "left out")
    [line] = ignored
    assert line.startswith(f"thing in.{shown}")
    assert "\n" not in line
    assert len(line) < 400


Taking = Callable[[Fields], object]
FLAG_LINE = "x is 1; expected true or false (default true kept)"
CASES: list[tuple[object, Taking, object, str]] = [
    (10, lambda f: f.number("x", 1, 0, 9), 1, "x is 10; expected 0 to 9 (default 1 kept)"),
    (True, lambda f: f.number("x", 1, 0, 9), 1, "x is true; expected 0 to 9 (default 1 kept)"),
    (1.5, lambda f: f.number("x", 1, 0, 9), 1, "x is 1.5; expected 0 to 9 (default 1 kept)"),
    (1, lambda f: f.flag("x", default=True), True, FLAG_LINE),
    ("pink", lambda f: f.word("x", RED), RED, 'x is "pink"; expected red or blue (default "red" '),
    ([], lambda f: f.word("x", NONE), NONE, "x is a list; expected red or blue (left empty)"),
    ({}, lambda f: f.text("x", "a"), "a", 'x is an object; expected text (default "a" kept)'),
    ("a\nb", lambda f: f.of("x").has("y"), False, 'x is "a\\nb"; expected an object'),
    (7, lambda f: f.number("x", None, 8, 9), None, "x is 7; expected 8 to 9 (left unset)"),
    ("", lambda f: f.flag("x", None), None, 'x is ""; expected true or false (left unset)'),
    (7, lambda f: f.word("x", RED), RED, "x is 7; expected red or blue (default"),
    (7, lambda f: list(f.objects("x")), [], "x is 7; expected a list (left out)"),
    ([7], lambda f: list(f.objects("x")), [], "x[0] is 7; expected an object (left out)"),
]


@pytest.mark.parametrize(("given", "take", "default", "line"), CASES)
def test_what_cannot_be_used_has_its_default_and_a_line(
    given: object, take: Taking, default: object, line: str
) -> None:
    fields, ignored = read({"x": given})
    assert take(fields) == default
    [reported] = ignored
    assert reported.startswith(f"thing {line}")


def test_paths_lead_to_the_field() -> None:
    fields, ignored = read({"a": {"b": [{}, {"c": {"x": 7}}]}})
    _, second = fields.of("a").objects("b")
    second.of("c").number("x", 1, 0, 2)
    assert ignored == ["thing a.b[1].c.x is 7; expected 0 to 2 (default 1 kept)"]


def test_a_document_that_is_no_object_is_reported_by_its_name() -> None:
    assert read(3)[1] == ["thing is 3; expected an object (defaults kept)"]


def test_long_values_are_cut() -> None:
    fields, ignored = read({"x": 10**5000, "y": "y" * 5000})
    fields.number("x", 1, 0, 2)
    fields.number("y", 1, 0, 2)
    assert all(len(line) < 100 for line in ignored)
