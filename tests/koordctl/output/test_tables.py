"""Tables on canvases: what is shortened, what is coloured, and what never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordctl.output.tables import Canvas, Style, bad, indented, lines_of, plain, table
from koordctl.output.writer import canvas

REASON = "no report for 5 min, and none before that either"
ROWS = [("NODE", "CPU", "WHY"), ("a-node-with-a-long-name", "12", REASON)]


def test_the_widest_text_is_shortened_and_the_name_never() -> None:
    shown = table(ROWS, words=(0, 2))
    assert list(lines_of([shown], Canvas(width=50))) == [
        "NODE                     CPU  WHY",
        "a-node-with-a-long-name   12  no report for 5 min…",
    ]
    narrow = list(lines_of([shown], Canvas(width=10)))
    assert narrow[1] == "a-node-with-a-long-name   12  no repo…"
    for unbounded in (Canvas(), Canvas(width=50, is_wide=True)):
        assert list(lines_of([shown], unbounded))[1].endswith(REASON)


@given(
    st.lists(st.tuples(*[st.text("ab你", max_size=30)] * 4), min_size=1, max_size=4),
    st.integers(45, 120),
)
def test_a_fitted_table_is_as_wide_as_the_terminal_at_most(
    rows: list[tuple[str, ...]], width: int
) -> None:
    named = [(name[:10], *rest) for name, *rest in rows]
    for line in lines_of([table(named)], Canvas(width=width)):
        assert len(line) + line.count("你") <= max(width, 20 + 3 * (8 + 2))


def test_columns_of_wide_output() -> None:
    shown = table(ROWS, words=(0, 2), wide=(2,))
    assert plain([shown])[0] == "NODE                     CPU"
    assert next(lines_of([shown], Canvas(is_wide=True))).endswith("CPU  WHY")


def test_colours_change_no_letter_and_no_place() -> None:
    blocks = [table([("NODE", "STATE"), ("a", bad("down\x1b[2J")), ("b", "up")]), bad("a is down")]
    header, first, second, line = lines_of(blocks, Canvas(has_colors=True))
    assert header.startswith(f"{Style.HEADER}NODE\x1b[0m  ")
    assert first == f"a     {Style.BAD}down�[2J\x1b[0m"
    assert (second, line) == ("b     up", f"{Style.BAD}a is down\x1b[0m")
    *_, row, _, last = plain(indented(blocks))
    assert (row, last) == ("  a     down�[2J", "  a is down")


@pytest.mark.parametrize(
    ("is_terminal", "environ", "has_colors"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_who_gets_colours(is_terminal: bool, environ: dict[str, str], has_colors: bool) -> None:
    shown = canvas(is_terminal=is_terminal, width=80, environ=environ, is_wide=False)
    assert shown == Canvas(80 if is_terminal else 0, has_colors)
