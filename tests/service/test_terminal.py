"""What is printed cannot control a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_service.terminal import printable, printable_json, write_error

EVIL = "\x1b[31mred\x1b]0;t\x07 \u009b2J \u202e \x7f \ud800 \U000e0001 \u2028 é 漢"
TREES = st.recursive(
    st.text() | st.sampled_from([EVIL]) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.text() | st.just(EVIL))
def test_a_line_is_printable_and_as_long_as_it_was(line: str) -> None:
    shown = printable(line)
    assert shown.isprintable()
    assert len(shown) == len(line)
    assert all(
        one in ("\N{REPLACEMENT CHARACTER}", was) for one, was in zip(shown, line, strict=True)
    )


@given(TREES, st.sampled_from([None, 2]))
def test_a_document_is_printable_and_what_it_was(tree: object, indent: int | None) -> None:
    shown = printable_json(json.dumps(tree, ensure_ascii=False, indent=indent))
    assert all(line.isprintable() for line in shown.split("\n"))
    assert json.loads(shown) == tree


def test_what_a_program_says_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_error("koordctl", f"{EVIL}\nkoordctl: forged")
    said = capsys.readouterr().err
    assert said.startswith("koordctl: �[31mred")
    assert said.count("\n") == 1
    assert said[:-1].isprintable()
