from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_devices.core.tool_output import OutputError, decode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(max_size=5), inner),
).filter(lambda one: isinstance(one, dict | list))
NOISE = [
    "",
    "WARNING: AMD GPU device(s) is/are in a low-power state.\n",
    "[WARNING] Keep-alive failed\n",
    "GPU[0]\t\t: Unable to read sclk\n",
    "2026-01-01 [rsmi] init {fallback} [12:30:01]\n",
    'WARNING: {"0000:3b:00.0" is asleep}\n',
    "} ] ",
]
J: dict[str, Any] = {"card0": {"name": "Navi 32", "links": [1, 2, 3]}}


@given(VALUES.filter(lambda one: len(msgspec.json.encode(one)) > 3))
def test_json_is_found_between_lines_of_text(value: Any) -> None:
    for before, after in itertools.product(NOISE, NOISE):
        assert decode(f"{before}{msgspec.json.encode(value).decode()}\n{after}") == value


@pytest.mark.parametrize(
    "text",
    ["", "no", "[WARNING]", '{"a": 1', '{"a": {"b": 1}, "c": [1, 2', '[{"a": 1},\n{"b": 2},\n',
     '{"a": 1e999}', "[" * 100_000, '{"a":' * 100_000, "[9" * 50_000, "\ud800"],
)  # fmt: skip
def test_what_is_not_whole_is_no_answer(text: str) -> None:
    with pytest.raises(OutputError):
        decode(text)
