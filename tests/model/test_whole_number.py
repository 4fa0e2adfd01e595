"""Numbers that Go's ``ParseInt`` takes, and no others."""

from __future__ import annotations

import pytest
from koord_model.gang_annotations import int32
from koord_model.whole_number import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        ("9" * 5000, None),
        *((text, None) for text in ("", "-", "-+5", "+-5", "5 ", "1_0", "٣", "x")),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_those_of_gangs_have_32_bits() -> None:
    assert (int32(str(2**31 - 1)), int32(str(2**31))) == (2**31 - 1, None)
    assert [int32(text) for text in (None, "-+5", "9" * 5000)] == [None] * 3
