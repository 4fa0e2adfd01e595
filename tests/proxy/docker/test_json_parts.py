"""JSON taken apart and put together: what is not changed comes out as it came in."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proxy.docker.json_parts import JsonArray, JsonObject, decoded

ODD = (
    rb""" {"a" : 1e400,
 "a":1E-5 , "\u0062" :"\ud800", "c": [1,{"d":[]}, 99999999999999999999999] ,"e":{"}":"]\"{"},
 "ni\u00f1o":null,"":true , "raw":" """
    b'\xff"}\n\t'
)

SPACE = st.sampled_from((b"", b" ", b"\n\t"))
KEYS = st.sampled_from((b'"a"', b'"A"', rb'"\u0061"', b'"}"', rb'"\""', rb'"\ud800"', b'""'))
SCALARS = st.sampled_from(
    (b"null", b"1e400", b"-0", b"1" * 40, b"0.10", b'"]"', rb'"\"{\\"', b'"\xff"', rb'"\ud800"')
)


def _join(parts: list[tuple[bytes, ...]], brackets: bytes) -> bytes:
    return brackets[:1] + b",".join(b"".join(part) for part in parts) + brackets[1:]


def _arrays(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.tuples(SPACE, values, SPACE), max_size=4).map(lambda it: _join(it, b"[]"))


def _objects(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    member = st.tuples(SPACE, KEYS, SPACE, st.just(b":"), SPACE, values, SPACE)
    return st.lists(member, max_size=4).map(lambda it: _join(it, b"{}"))


VALUES = st.recursive(SCALARS, lambda inner: _arrays(inner) | _objects(inner), max_leaves=8)
"""JSON as text, of a kind that no decoder and encoder would give back as it was."""


def test_odd_text_is_kept() -> None:
    whole = JsonObject(ODD)
    assert whole.encoded() == ODD
    assert [part.name for part in whole.parts] == ["a", "a", "b", "c", "e", "niño", "", "raw"]
    assert whole.get("c") == b'[1,{"d":[]}, 99999999999999999999999]'
    assert whole.get("e") == rb'{"}":"]\"{"}'


def test_one_member_is_changed_and_the_rest_is_kept() -> None:
    whole = JsonObject(ODD)
    whole.put("c", b"0")
    whole.put("new", b"{}")
    changed = ODD.replace(b'[1,{"d":[]}, 99999999999999999999999]', b"0")
    assert whole.encoded() == changed.replace(b'\xff"', b'\xff","new":{}')


@given(st.lists(VALUES, max_size=4), SPACE)
def test_any_value_is_kept(values: list[bytes], space: bytes) -> None:
    array = space + b"[" + b" ,".join(values) + b"]" + space
    whole = JsonArray(array, "it")
    assert whole.encoded() == array
    assert [part.value for part in whole.parts] == values
    members = space + b"{" + b",".join(b'"a" : ' + value for value in values) + b"}" + space
    whole = JsonObject(members)
    assert whole.encoded() == members
    assert [(part.name, part.value) for part in whole.parts] == [("a", value) for value in values]


@given(_objects(VALUES), st.sampled_from(("a", "A", "new")), st.text())
def test_what_was_put_is_there_and_nothing_else_changed(
    before: bytes, name: str, wanted: str
) -> None:
    value = json.dumps(wanted).encode()
    whole = JsonObject(before, exact=True)
    known = [(part.name, part.value) for part in whole.parts]
    whole.put(name, value)
    again = JsonObject(whole.encoded(), exact=True)
    assert again.text(name) == wanted
    now = [(part.name, part.value) for part in again.parts]
    places = [place for place, (key, _) in enumerate(known) if key == name]
    if places:
        known[places[-1]] = (name, value)
    else:
        known.append((name, value))
    assert now == known


@given(st.binary() | st.text(alphabet='{}[]",:\\ 1aentu.-').map(str.encode))
def test_any_bytes_are_kept_or_refused(text: bytes) -> None:
    for shape in (JsonObject, JsonArray):
        try:
            whole = shape(text, "the body")
        except ValueError as error:
            problem = str(error)
        else:
            problem = ""
            assert whole.encoded() == text
        assert re.fullmatch(
            "|the body is no JSON (object|array)(: malformed at byte [0-9]+)?", problem
        )


LONG = 100_000


def test_nesting_has_no_limit() -> None:
    text = b'{"a":' + b"[" * LONG + b"]" * LONG + b"}"
    assert JsonObject(text).encoded() == text


@pytest.mark.parametrize(
    "text",
    [b'{"a":"' + b"\\" * (LONG + 1) + b'"}', b'{"' + b'\\"' * LONG, b'{"a":[' + b'"' * (LONG + 1)],
    ids=["value", "key", "nested"],
)
def test_a_long_string_without_end(text: bytes) -> None:
    with pytest.raises(ValueError, match="malformed at byte"):
        JsonObject(text)


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"null", b"[]", b'"{}"', b"\xef\xbb\xbf{}", b"\x0c{}", b"{", b"{} x", b"{}{}",
        b'{"a"}', b'{"a":}', b'{"a":1,}', b'{,"a":1}', b'{"a":1 "b":2}', b'{a:1}', b"{'a':1}",
        b'{"a":[}', b'{"a":tru}', b'{"a":01}', b'{"a":.5}', b'{"a":1.}', b'{"a":NaN}', b'{"a":"}',
        b'{"a":["]}', b'{"a":1]', b'{"a":1', b'{"a":{"b":1}',
    ],
)  # fmt: skip
def test_no_object(text: bytes) -> None:
    with pytest.raises(ValueError, match="the body is no JSON object"):
        JsonObject(text, "the body")


@pytest.mark.parametrize("text", [b"{}", b"null", b"[1,]", b"[,1]", b"[1", b"[1]2", b"[1 2]"])
def test_no_array(text: bytes) -> None:
    with pytest.raises(ValueError, match="it is no JSON array"):
        JsonArray(text, "it")


# What encoding/json of Go 1.24 makes of these, tried.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"Memory":1,"memory":2}', b"2"),
        (b'{"Memory":1,"memory":2,"Memory":3}', b"3"),
        (b'{"MEMORY":1}', b"1"),
        (b'{"Mem\\u006fry":5}', b"5"),
        (b'{"Memory":null}', None),
        (b'{"Memory ":1,"Memor":2}', None),
    ],
)
def test_names_are_found_as_go_finds_them(text: bytes, expected: bytes | None) -> None:
    assert JsonObject(text).get("Memory") == expected


def test_the_last_of_several_is_changed_under_its_spelling() -> None:
    whole = JsonObject(b'{"Memory":1,"memory":2,"x":0}')
    whole.put("Memory", b"7")
    assert whole.encoded() == b'{"Memory":1,"memory":7,"x":0}'


def test_keys_of_a_map_are_exact() -> None:
    labels = JsonObject(b'{"LABELS":{"a":"1","A":"2","a":"3"}}').object("Labels", exact=True)
    assert (labels.text("a"), labels.text("A")) == ("3", "2")
    labels.put("a", b'"4"')
    assert labels.encoded() == b'{"a":"1","A":"2","a":"4"}'


@pytest.mark.parametrize("text", [b"{}", b'{"X":null}'])
def test_absent_sections_are_empty(text: bytes) -> None:
    whole = JsonObject(text)
    assert (whole.object("X").parts, whole.array("X").parts) == ([], [])


@pytest.mark.parametrize(("text", "kind"), [(b'{"X":5}', "object"), (b'{"X":{}}', "array")])
def test_a_section_that_is_something_else(text: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=f'"X" of the body is no JSON {kind}'):
        getattr(JsonObject(text, "the body"), kind)("X")


@pytest.mark.parametrize(
    ("before", "after"), [(b"[]", b"[1]"), (b" [ ]\n", b" [1 ]\n"), (b"[0 ]", b"[0,1 ]")]
)
def test_appending(before: bytes, after: bytes) -> None:
    array = JsonArray(before, "it")
    array.append(b"1")
    assert array.encoded() == after


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (b'"x"', str, "x"),
        (b"12", int, 12),
        (None, str, None),
        (b"12", str, None),
        (b"1e3", int, None),
        (b'"\\ud800"', str, None),
        (b'"\xff"', str, None),
    ],
)
def test_decoding_one_value(value: bytes | None, kind: type, expected: object) -> None:
    assert decoded(value, kind) == expected
