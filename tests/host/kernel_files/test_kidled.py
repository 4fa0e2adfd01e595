"""kidled's statistics: the columns that count, and garbage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.kidled import cold_bytes

COLD = ("cfei", "dfei", "cfui", "dfui")
KINDS = tuple(
    f"{dirty}{file}{evictable}{active}"
    for active in "ia"
    for evictable in "eu"
    for file in "sf"
    for dirty in "cd"
)


def stats(**rows: list[int]) -> str:
    """The file as newer kernels print it; rows that are not given are 0."""
    head = "# version: 1.0\n# page_scans: 24\n# buckets: 1,2,5,15,30,60,120,240\n#\n# ||||| [1,2)\n"
    lines = (f"  {kind} {' '.join(map(str, rows.get(kind, [0] * 8)))}\n" for kind in KINDS)
    return head + "".join(lines)


@given(
    st.fixed_dictionaries(
        {kind: st.lists(st.integers(0, 1 << 50), min_size=8, max_size=8) for kind in KINDS}
    )
)
def test_inactive_page_cache_of_sixty_scans_or_more_is_cold(rows: dict[str, list[int]]) -> None:
    assert cold_bytes(stats(**rows)) == sum(sum(rows[kind][5:]) for kind in COLD)


def test_fewer_columns_than_usual_have_nothing_cold() -> None:
    assert cold_bytes(stats(**{kind: [9] * 5 for kind in KINDS})) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no line cfei, cfui, dfei, dfui"),
        (stats().replace("dfui", "dfux"), "has no line dfui"),
        (stats().replace("cfei 0 0 0 0 0 0", "cfei 0 0 0 0 0 x"), "where sizes belong"),
    ],
)
def test_garbage_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cold_bytes(text)


@given(st.text(alphabet="cdfeiu 01\n#", max_size=60))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert cold_bytes(text) >= 0
