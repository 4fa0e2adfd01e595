import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.duration import seconds, written


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("5m0s", 300),
        ("5m", 300),
        ("1h2m3.5s", 3723.5),
        ("1500ms", 1.5),
        (".5s", 0.5),
        ("90s", 90),
        ("12h", 43200),
    ],
)
def test_as_go_reads_them(word: str, expected: float) -> None:
    assert seconds(word) == pytest.approx(expected)


@pytest.mark.parametrize("word", ["", "5", "m", "-5m", "5m ", "1d", "1s" * 9, "9" * 400 + "s"])
def test_what_is_none(word: str) -> None:
    with pytest.raises(ValueError, match="is not a valid duration; expected one like 90s"):
        seconds(word)


@given(st.integers(1, 10**6))
def test_they_survive_being_written(number: int) -> None:
    assert seconds(written(number)) == pytest.approx(number)


@pytest.mark.parametrize(
    ("number", "word"),
    [(30, "30s"), (300, "5m0s"), (5400, "1h30m0s"), (3600, "1h0m0s"), (1.5, "1.5s")],
)
def test_as_go_writes_them(number: float, word: str) -> None:
    assert written(number) == word
