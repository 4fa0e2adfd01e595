from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordctl.amounts import bar, cores, formatter, memory, percent, share, sparkline
from koordctl.output.tables import plain, table

GIB = 1 << 30


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0.00"), (0.0123, "0.012"), (1.5, "1.50"), (123.456, "123.46")],
)
def test_cores(value: float | None, text: str) -> None:
    assert cores(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (2048, "2 KiB"),
        (1.5 * GIB, "1.5 GiB"),
        (3000 * 1024 * GIB, "2.9 PiB"),
    ],
)
def test_memory(value: float | None, text: str) -> None:
    assert memory(value) == text


def test_percents() -> None:
    assert percent(None) == "–"
    assert percent(12.345) == "12.3 %"
    assert share(1, 3) == "33 %"
    assert share(1, None) == share(None, 3) == share(1, 0) == "–"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 4, "░░░░"),
        (2, 4, "██░░"),
        (4, 4, "████"),
        (9, 4, "████"),
        (1.5, 4, "█▌░░"),
        (-1, 4, "░░░░"),
        (None, 4, "····"),
        (1, None, "····"),
    ],
)
def test_bars(part: float | None, whole: float | None, text: str) -> None:
    assert bar(part, whole, 4) == text


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ([], ""),
        ([None, None], "  "),
        ([0.0, 0.0], "▁▁"),
        ([0.0, 1.0, None, 7.0], "▁▂ █"),
        ([1.0, 1.0, 7.0, 7.0, None, None, None, 3.5], "▂█ ▅"),
    ],
)
def test_sparklines(points: list[float | None], text: str) -> None:
    assert sparkline(points, 4) == text


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e15)), max_size=300), st.integers(1, 80))
def test_sparklines_fit(points: list[float | None], width: int) -> None:
    assert len(sparkline(points, width)) == min(len(points), width)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("cores", "0.50"),
        ("bytes", "0 B"),
        ("ratio", "50.0 %"),
        ("percent", "0.5 %"),
        ("bytes/s", "0 B/s"),
        ("count", "0.5"),
    ],
)
def test_units(unit: str, text: str) -> None:
    assert formatter(unit)(0.5) == text
    assert formatter(unit)(None) == "–"


def test_tables_put_words_left_and_numbers_right() -> None:
    rows = [("POD", "CPU", "WHY"), ("a", "1.00", ""), ("long-name", "12.00", "x y")]
    assert plain([table(rows, words=(0, 2))]) == [
        "POD          CPU  WHY",
        "a           1.00",
        "long-name  12.00  x y",
    ]
