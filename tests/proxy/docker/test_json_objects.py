"""JSON objects read level by level: what is not changed comes out as it came in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proxy.docker.json_objects import JsonObject, decoded, parsed, raw
from msgspec import Raw

ODD = (
    rb'{"a":1e400,"b":1E-5,"c":[1,{"d":[]}, 99999999999999999999999],"e":{"}" : "]\"{\u0062"},'
    rb'"ni\u00f1o":null,"":0.10,"raw":"'
    b'\xff"}'
)

SPACE = st.sampled_from((b"", b" ", b"\n\t"))
KEYS = st.sampled_from((b'"a"', b'"A"', rb'"\u0061"', b'"}"', rb'"\""', b'""'))
SCALARS = st.sampled_from(
    (b"null", b"1e400", b"-0", b"1" * 40, b"0.10", b'"]"', rb'"\"{\\"', b'"\xff"', rb'"\u003c"')
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
MEMBERS = st.dictionaries(st.sampled_from(("a", "A", "b", "}", '"', "ñ", "")), VALUES)


def text_of(members: dict[str, bytes], space: bytes = b"") -> bytes:
    keys = (json.dumps(key, ensure_ascii=False).encode() for key in members)
    pairs = zip(keys, members.values(), strict=True)
    return _join([(space, key, space, b":", space, value, space) for key, value in pairs], b"{}")


def members_of(whole: JsonObject) -> list[tuple[str, bytes]]:
    return [(key, bytes(value)) for key, value in whole.members.items()]


def test_odd_values_are_kept() -> None:
    whole = JsonObject(ODD, "it")
    assert list(whole.members) == ["a", "b", "c", "e", "niño", "", "raw"]
    whole.put("b", 0)
    whole.put("new", {"x": [whole.members["a"]]})
    changed = ODD.replace(b"1E-5", b"0").replace(b'\xff"', b'\xff","new":{"x":[1e400]}')
    assert whole.encoded() == changed.replace(rb"\u00f1", "ñ".encode())


@given(MEMBERS, SPACE)
def test_any_value_is_kept(members: dict[str, bytes], space: bytes) -> None:
    whole = JsonObject(space + text_of(members, space) + space, "it")
    assert members_of(whole) == list(members.items())
    assert whole.encoded() == text_of(members)


@given(st.lists(VALUES, max_size=4), SPACE)
def test_any_element_is_kept(values: list[bytes], space: bytes) -> None:
    array = b"[" + b",".join(space + value + space for value in values) + b"]"
    whole = JsonObject(b'{"X":' + array + b"}", "it")
    assert [bytes(value) for value in whole.array("X")] == values
    whole.put("X", whole.array("X"))
    assert whole.encoded() == b'{"X":[' + b",".join(values) + b"]}"


@given(MEMBERS, st.sampled_from(("a", "A", "new")), st.text())
def test_what_was_put_is_there_and_nothing_else_changed(
    before: dict[str, bytes], name: str, wanted: str
) -> None:
    whole = JsonObject(text_of(before), "it")
    whole.put(name, wanted)
    again = JsonObject(whole.encoded(), "it")
    assert again.text(name) == wanted
    spellings = [key for key in before if key.lower() == name.lower()]
    spelling = spellings[-1] if spellings else name
    expected = before | {spelling: bytes(raw(wanted))}
    assert members_of(again) == list(expected.items())


@given(st.binary() | st.text(alphabet='{}[]",:\\ 1aentud.-').map(str.encode))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        whole = JsonObject(text, "the body")
    except ValueError as error:
        problem = str(error)
        assert problem.startswith("the body is not a JSON object: ")
        assert problem.isprintable()
    else:
        assert members_of(JsonObject(whole.encoded(), "it")) == members_of(whole)


LONG = 100_000


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"null", b"[]", b'"{}"', b"\xef\xbb\xbf{}", b"\x0c{}", b"{", b"{} x", b"{}{}",
        b'{"a"}', b'{"a":}', b'{"a":1,}', b'{,"a":1}', b'{"a":1 "b":2}', b'{a:1}', b"{'a':1}",
        b'{"a":[}', b'{"a":tru}', b'{"a":01}', b'{"a":.5}', b'{"a":1.}', b'{"a":NaN}', b'{"a":"}',
        b'{"a":["]}', b'{"a":1]', b'{"a":1', b'{"a":{"b":1}', b'{"\xff":1}',
        # What no encoder of Go writes.
        rb'{"a":"\ud800"}', rb'{"\ud800":1}', b'{"a":' + b"[" * LONG + b"]" * LONG + b"}",
    ],
    ids=range(32),
)  # fmt: skip
def test_no_object(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the body is not a JSON object: .+$"):
        JsonObject(text, "the body")


@pytest.mark.parametrize("value", [b"{}", b"5", b'""', b"true"])
def test_no_array(value: bytes) -> None:
    with pytest.raises(ValueError, match=r'^"X" of the body is not a JSON array: .+$'):
        JsonObject(b'{"X":' + value + b"}", "the body").array("X")


@pytest.mark.parametrize("value", [b"[]", b"5", b'""', b"true"])
def test_no_object_in_an_object(value: bytes) -> None:
    whole = JsonObject(b'{"X":{"Y":' + value + b"}}", "the body")
    with pytest.raises(ValueError, match=r'^"Y" of "X" of the body is not a JSON object: .+$'):
        whole.object("X").object("Y")


# What encoding/json of Go 1.24 makes of these, tried.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"Memory":1,"memory":2}', Raw(b"2")),
        (b'{"memory":1,"Memory":2}', Raw(b"2")),
        (b'{"Memory":1,"Memory":3}', Raw(b"3")),
        (b'{"MEMORY":1}', Raw(b"1")),
        (b'{"Mem\\u006fry":5}', Raw(b"5")),
        (b'{"Memory":null}', None),
        (b'{"Memory ":1,"Memor":2}', None),
    ],
)
def test_fields_are_found_as_go_finds_them(text: bytes, expected: Raw | None) -> None:
    assert JsonObject(text, "it").get("Memory") == expected


def test_the_last_of_several_is_changed_under_its_spelling() -> None:
    whole = JsonObject(b'{"Memory":1,"memory":2,"x":0}', "it")
    whole.put("Memory", 7)
    assert whole.encoded() == b'{"Memory":1,"memory":7,"x":0}'


def test_members_are_found_as_they_are_spelt() -> None:
    labels = JsonObject(b'{"LABELS":{"a":"1","A":"2"}}', "it").object("Labels")
    labels.members["a"] = raw("4")
    assert labels.encoded() == b'{"a":"4","A":"2"}'


@pytest.mark.parametrize("text", [b"{}", b'{"X":null}'])
def test_absent_sections_are_empty(text: bytes) -> None:
    whole = JsonObject(text, "it")
    assert (whole.object("X").members, whole.array("X"), whole.text("X")) == ({}, [], "")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (b'"x"', str, "x"),
        (b"12", int, 12),
        (None, str, None),
        (b"12", str, None),
        (b"1e3", int, None),
        (b"1e400", float, None),
        (b'"\xff"', str, None),
    ],
)
def test_decoding_one_value(value: bytes | None, kind: type, expected: object) -> None:
    assert decoded(None if value is None else Raw(value), kind) == expected


@pytest.mark.parametrize("text", [b"5", b'"\xff"', b"", b"[" * LONG])
def test_text_that_is_something_else(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it is no name: .+$"):
        parsed(text, str, "it is no name")
