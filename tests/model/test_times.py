"""Times of the API, as text and in seconds since the epoch."""

from __future__ import annotations

import pytest
from koord_model.times import from_rfc3339, rfc3339, rfc3339_micro, rfc3339_milli


@pytest.mark.parametrize(
    ("seconds", "plain", "milli", "micro"),
    [
        (0, "1970-01-01T00:00:00", "000", "000000"),
        (1767225690.999999, "2026-01-01T00:01:30", "999", "999999"),
        (1767225690.9999998, "2026-01-01T00:01:30", None, None),  # no second that did not come yet
        (1709164800.25, "2024-02-29T00:00:00", "250", "250000"),
        (253402300799, "9999-12-31T23:59:59", "000", "000000"),
    ],
)
def test_seconds_to_text(seconds: float, plain: str, milli: str | None, micro: str | None) -> None:
    assert rfc3339(seconds) == f"{plain}Z"
    if milli is not None:
        assert rfc3339_milli(seconds) == f"{plain}.{milli}Z"
        assert rfc3339_micro(seconds) == f"{plain}.{micro}Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:01:30Z", 1767225690.0),
        ("2026-01-01T01:01:30+01:00", 1767225690.0),
        ("2026-01-01T00:01:30.25Z", 1767225690.25),
        ("2026-01-01T00:01:30.000001Z", 1767225690.000001),
        ("2026-01-01T00:01:30", 1767225690.0),
        ("0001-01-01T00:00:00Z", -62135596800.0),
    ],
)
def test_text_to_seconds(text: str, seconds: float) -> None:
    assert from_rfc3339(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01T00:00:00Z", "None"])
def test_what_is_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_rfc3339(text)
