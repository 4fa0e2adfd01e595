"""Pressure files: what the kernel writes is read, all else is said."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.pressure import Averages, Pressure, parse

SOME = "some avg10=1.50 avg60=0.05 avg300=100.00 total=42\n"
SHARES = st.integers(0, 10_000).map(lambda number: number / 100)
AVERAGES = st.builds(Averages, SHARES, SHARES, SHARES)


def written(degree: str, averages: Averages) -> str:
    shares = " ".join(f"{name}={value:.2f}" for name, value in averages._asdict().items())
    return f"{degree} {shares} total=7\n"


@given(AVERAGES, st.none() | AVERAGES)
def test_what_the_kernel_writes_is_read(some: Averages, full: Averages | None) -> None:
    text = written("some", some) + (written("full", full) if full else "")
    assert parse(text) == Pressure(some, full)


def test_before_linux_5_13_cpu_has_one_line() -> None:
    assert parse(SOME) == Pressure(Averages(1.5, 0.05, 100.0), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'has no line "some'),
        (SOME.replace("some", "full"), 'has no line "some'),
        ("garbage", "'garbage' is not a valid line of a pressure file"),
        (SOME.replace("1.50", "nan"), "is not a valid line of a pressure file"),
        (SOME.replace(" total=42", ""), "is not a valid line of a pressure file"),
        (SOME + "\n", "'' is not a valid line of a pressure file"),
    ],
)
def test_anything_else_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@given(st.text())
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse(text).some.avg10 >= 0


@pytest.mark.skipif(not Path("/proc/pressure").exists(), reason="no PSI on this kernel")
@pytest.mark.parametrize("name", ["cpu", "memory", "io"])
def test_this_kernel_s_own(name: str) -> None:
    assert parse(Path(f"/proc/pressure/{name}").read_text(encoding="ascii")).some.avg10 >= 0
