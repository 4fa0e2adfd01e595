import math
import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import demand
from koord_model.quantity import (
    binary_text,
    decimal_text,
    milli,
    nano,
    nano_text,
    quantity_text,
    quantity_texts,
    whole,
)

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
        # More digits than decimals have unless given.
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


# ---- written

RESOURCES = (
    *("cpu", "memory", "ephemeral-storage", "requests.storage", "hugepages-2Mi"),
    *("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "koordinator.sh/gpu-memory-ratio"),
)
amounts = st.integers(-(1 << 63), 1 << 63) | st.builds(
    operator.mul, st.integers(-2000, 2000), st.sampled_from((10**3, 10**9, 10**15, 2**20, 2**40))
)


@given(st.sampled_from(RESOURCES), amounts)
def test_what_is_written_reads_as_the_same(resource: str, amount: int) -> None:
    assert demand.amount(resource, quantity_text(resource, amount)) == amount


@given(amounts)
def test_billionths_are_written_as_they_are_read(amount: int) -> None:
    assert nano(nano_text(amount)) == amount


@pytest.mark.parametrize(
    ("amount", "cpu", "memory", "pieces"),
    [
        (0, "0", "0", "0"),
        (1, "1m", "1", "1"),
        (1000, "1", "1k", "1k"),
        (1024, "1024m", "1Ki", "1024"),
        (1500, "1500m", "1500", "1500"),
        (-1500, "-1500m", "-1500", "-1500"),
        (-2048, "-2048m", "-2Ki", "-2048"),
        (5_000_000, "5k", "5000000", "5M"),
        (1536 << 20, "1610612736m", "1536Mi", "1610612736"),
        (10_752 << 20, "11274289152m", "10752Mi", "11274289152"),
        (3 << 30, "3221225472m", "3Gi", "3221225472"),
        (1 << 62, "4611686018427387904m", "4Ei", "4611686018427387904"),
        (10**18, "1P", "976562500000000Ki", "1E"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(
    amount: int, cpu: str, memory: str, pieces: str
) -> None:
    assert quantity_texts({"memory": amount, "cpu": amount, "pods": amount}) == {
        "cpu": cpu,
        "memory": memory,
        "pods": pieces,
    }


@given(amounts)
def test_no_larger_suffix_is_exact(amount: int) -> None:
    for text, step, suffixes in (
        (decimal_text(amount), 1000, ("", "k", "M", "G", "T", "P", "E")),
        (binary_text(amount), 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
    ):
        digits = text.rstrip("kKMGTPEi")
        suffix = text.removeprefix(digits)
        if amount and suffix in suffixes[:-1] and (step == 1000 or abs(amount) >= 1024):
            assert int(digits) % step


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (7, "7n"), (1_500_000, "1500u"), (15 * 10**8, "1500m"), (2 * 10**12, "2k")],
)
def test_billionths_get_the_largest_suffix_that_is_exact(amount: int, text: str) -> None:
    assert nano_text(amount) == text
