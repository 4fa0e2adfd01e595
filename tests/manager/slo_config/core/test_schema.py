"""Documents against schemas: which names are unknown, which values an API server would refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.definitions.node_slo import NODE_SLO
from koord_kube.definitions.schema import (
    Schema,
    anything,
    flag,
    int_or_text,
    list_of,
    map_of,
    object_of,
    text,
    whole,
)
from koord_manager.slo_config.core.config import KEYS, read_key
from koord_manager.slo_config.core.schema import UnknownField, unknown_fields, violations

SCHEMA = object_of(
    "",
    enable=flag(""),
    count=whole("", 0, 10),
    word=text("", "a", "b"),
    share=int_or_text(),
    parts=list_of("", object_of("", name=text())),
    numbers=map_of("", whole("", bits=32)),
    others=anything("") | object_of("", ours=object_of("", rise=whole(""))),
)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"enable": True, "numbers": {"any": 1}, "others": {"theirs": {"a": 1}}}, []),
        ({"enabel": True}, [UnknownField("enabel", "enable")]),
        ({"Enable": True}, [UnknownField("Enable", "enable")]),
        ({"quite else": True}, [UnknownField("quite else")]),
        ({"parts": [{}, {"nam": 1}]}, [UnknownField("parts[1].nam", "name")]),
        ({"parts": [{"x": 1}]}, [UnknownField("parts[0].x", names=("name",))]),
        ({"others": {"ours": {"rice": 1}}}, [UnknownField("others.ours.rice", "rise")]),
        ({"en\nable": 1}, [UnknownField('"en\\nable"', "enable")]),
    ],
)
def test_unknown_names_are_found_at_every_depth_with_the_nearest(
    document: Any, found: list[UnknownField]
) -> None:
    assert list(unknown_fields(document, SCHEMA)) == found


@pytest.mark.parametrize(
    ("document", "head"),
    [
        ({"enable": 1}, ".enable is 1"),
        ({"count": 11}, ".count is 11"),
        ({"count": True}, ".count is true"),
        ({"count": 1.0}, ".count is 1.0"),
        ({"word": "c"}, '.word is "c"'),
        ({"share": 1.5}, ".share is 1.5"),
        ({"parts": {}}, ".parts is an object"),
        ({"parts": [{"name": 1}]}, ".parts[0].name is 1"),
        ({"numbers": {"a": 1 << 31}}, ".numbers.a is 2147483648"),
        ({"others": {"ours": {"rise": "x"}}}, '.others.ours.rise is "x"'),
        ([], " is a list"),
    ],
)
def test_values_that_are_barred_are_named(document: Any, head: str) -> None:
    [line] = violations(document, SCHEMA)
    assert line.startswith(f"{head}; expected ")


def test_what_is_allowed_or_unknown_violates_nothing() -> None:
    good = {"enable": None, "count": 10, "word": "b", "share": "1G", "parts": [{}], "else": [1]}
    assert list(violations(good | {"others": {"theirs": 7}}, SCHEMA)) == []


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["enable", "parts", "name", "others", "ours", "numbers", "enabl"]),
            inner,
            max_size=3,
        )
    ),
)


@given(_ANY)
def test_whatever_a_document_says_lines_are_lines(document: Any) -> None:
    lines = [*map(str, unknown_fields(document, SCHEMA)), *violations(document, SCHEMA)]
    assert all("\n" not in line for line in lines)


[_VERSION] = NODE_SLO["spec"]["versions"]
_SPEC = _VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
_SECTIONS = {
    "resource-threshold-config": "resourceUsedThresholdWithBE",
    "resource-qos-config": "resourceQOSStrategy",
    "cpu-burst-config": "cpuBurstStrategy",
    "system-config": "systemStrategy",
}


def leaves(schema: Schema, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Schema]]:
    """The fields of a schema that hold values, by where they are."""
    for name, part in schema.get("properties", {}).items():
        yield from leaves(part, (*path, name))
    if "items" in schema:
        yield from leaves(schema["items"], (*path, 0))
    elif "additionalProperties" in schema:
        yield from leaves(schema["additionalProperties"], (*path, "NEXT_BUDDY"))
    elif "properties" not in schema:
        yield path, schema


def nested(path: tuple[str | int, ...], value: object) -> Any:
    for name in reversed(path):
        value = [value] if name == 0 else {name: value}
    return value


def barred(schema: Schema) -> Iterator[object]:
    """Values that are none for a field."""
    if schema.get("type") == "integer":
        yield from ("x", True, 1.5, schema.get("minimum", -(1 << 63)) - 1)
        yield schema.get("maximum", (1 << 63) - 1) + 1
    else:
        yield from ([], 1 if schema.get("type") == "boolean" else True)
    if "enum" in schema:
        yield "none of them"


_FIELDS = [
    (key, path, schema)
    for key, section in _SECTIONS.items()
    for path, schema in leaves(_SPEC[section])
]


def test_a_value_that_the_api_server_would_refuse_in_a_node_slo_is_refused_in_the_config_map() -> (
    None
):
    accepted = [
        (key, path, value)
        for key, path, schema in _FIELDS
        for value in barred(schema)
        if not read_key(key, json.dumps({"clusterStrategy": nested(path, value)}))[1]
    ]
    assert accepted == []
    assert len(_FIELDS) > 250
    assert _SECTIONS.keys() <= KEYS
