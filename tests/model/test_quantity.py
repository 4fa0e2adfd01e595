import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.quantity import binary_text, milli, milli_text, whole

_FACTORS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
}


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        *(("500", 500), (500, 500), ("1Gi", 2**30), ("1500m", 2), ("0.1", 1), (0.1, 1)),
        *(("1e3", 1000), ("1E3", 1000), ("1E", 10**18), ("2.5k", 2500), (".5Ki", 512), ("5.", 5)),
        *(("-1500m", -2), ("+3", 3), ("1n", 1), ("0", 0), (1e22, 10**22), (" 7 ", 7)),
        ("9" * 30, int("9" * 30)),
        ("1" + "0" * 30 + ".000000000000000000000000000001", 10**30 + 1),
    ],
)
def test_quantities_round_up_exactly(quantity: str | int | float, expected: int) -> None:
    assert whole(quantity) == expected


@pytest.mark.parametrize(
    "quantity",
    [
        *("", "abc", "1Q", "1ki", "1_000", "٣", "NaN", "inf", "1 Gi", "--1", "1e999999999"),
        *("1" * 65, "1e3Ki5", True, math.nan, math.inf, "9" * 100_000),
    ],
)
def test_other_text_is_refused_and_shown(quantity: str | float) -> None:
    with pytest.raises(
        ValueError, match="is not a valid quantity; expected one like 500m, 2 or 1"
    ) as error:
        whole(quantity)
    assert len(str(error.value)) < 120


@given(
    st.integers(0, 10**18), st.integers(0, 999), st.sampled_from(sorted(_FACTORS)), st.booleans()
)
def test_rounding_agrees_with_fractions(number: int, part: int, suffix: str, minus: bool) -> None:
    sign = "-" if minus else ""
    exact = (Fraction(number) + Fraction(part, 1000)) * _FACTORS[suffix]
    expected = -math.ceil(exact) if minus else math.ceil(exact)
    assert whole(f"{sign}{number}.{part:03}{suffix}") == expected


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_a_clear_error(text: str) -> None:
    problem = ""
    try:
        whole(text)
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        *(("500m", 500), (2, 2000), ("1.5", 1500), ("100u", 1), ("1k", 10**6), (0, 0)),
        ("-1", -1000),
        # More digits than decimals have unless told.
        (f"+1{'0' * 40}1m", 10**41 + 1),
    ],
)
def test_thousandths_rounded_up(quantity: str | int | float, expected: int) -> None:
    assert milli(quantity) == expected


@given(st.from_regex(r"[0-9]{0,70}m?", fullmatch=True))
def test_digits_only_are_read_as_any_other_quantity(text: str) -> None:
    def read(quantity: str) -> tuple[object, object]:
        found: list[object] = []
        for reader in (milli, whole):
            try:
                found.append(reader(quantity))
            except ValueError:
                found.append("none")
        return found[0], found[1]

    padded = f"+{text}"  # the same number, the long way
    assert read(text) == read(padded) or len(padded) > 64


@given(st.integers(0, 10**9))
def test_thousandths_are_written_as_they_are_read(amount: int) -> None:
    assert milli(milli_text(amount)) == amount


@given(st.integers(0, 1 << 63))
def test_bytes_are_written_with_two_digits_or_exactly(amount: int) -> None:
    text = binary_text(amount)
    assert amount <= whole(text) < amount + max(1, amount / 10)
    assert len(text.rstrip("EPTGMKi")) <= 5


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1 << 30, "1Gi"), (3 << 29, "1536Mi"), (10**9, "954Mi"), (10_239, "10239")],
)
def test_bytes_get_the_largest_suffix_that_says_enough(amount: int, text: str) -> None:
    assert binary_text(amount) == text
