"""Kubernetes quantities ("500m", "1Gi", 2): read as exact numbers, and written. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache

from koord_model.excerpt import excerpt
from koord_model.keys import CPU, HUGE_PAGES

_LONGEST = 64
"""Characters; exact arithmetic on more is work a pod's author could make us do."""

_EXACT = Context(prec=2 * _LONGEST)

_OF_BYTES = ("memory", "storage")
"""Endings of the names of resources that are counted in bytes."""


# A sign, digits with or without a point, then an exponent or a suffix.
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)([numkMGTPE]|[KMGTPE]i)?"
)

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def whole(quantity: str | int | float) -> int:
    """The quantity rounded away from 0 to a whole number, as Kubernetes' ``Value()`` does.

    Raises:
        ValueError: the text is not a quantity; the message shows it.
    """
    plain = _plain(quantity)
    if plain is not None:
        return plain
    return int(_exact(quantity).to_integral_value(ROUND_UP))


def milli(quantity: str | int | float) -> int:
    """The quantity in thousandths, rounded away from 0, as Kubernetes' ``MilliValue()`` does.

    Raises:
        ValueError: the text is not a quantity; the message shows it.
    """
    if isinstance(quantity, str) and quantity[-1:] == "m":
        plain = _plain(quantity[:-1])
        if plain is not None:
            return plain
    return int(_EXACT.multiply(1000, _exact(quantity)).to_integral_value(ROUND_UP))


def nano(quantity: str | int | float) -> int:
    """The quantity in billionths, rounded away from 0: as exact as Kubernetes keeps any.

    Raises:
        ValueError: the text is not a quantity; the message shows it.
    """
    plain = _plain(quantity)
    if plain is not None:
        return plain * 10**9
    if isinstance(quantity, str) and quantity[-1:] == "m":
        plain = _plain(quantity[:-1])
        if plain is not None:
            return plain * 10**6
    return int(_EXACT.multiply(10**9, _exact(quantity)).to_integral_value(ROUND_UP))


def quantity_text(resource: str, amount: int) -> str:
    """An amount as ``koord_model.demand`` has it: CPU in thousandths, all else whole.

    As Kubernetes writes it (``Quantity.String()``): nothing is rounded, and the suffix is the
    largest that is exact; a power of 1024 for bytes, of 1000 for all else.
    """
    if resource == CPU:
        return milli_text(amount)
    is_bytes = resource.endswith(_OF_BYTES) or resource.startswith(HUGE_PAGES)
    return binary_text(amount) if is_bytes else decimal_text(amount)


def quantity_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as quantities, by resource, in the order of their names."""
    return {name: quantity_text(name, amount) for name, amount in sorted(amounts.items())}


def nano_text(amount: int) -> str:
    """Billionths: 1,500,000 is "1500u"."""
    for power, suffix in enumerate(("n", "u", "m")):
        if amount % 1000 ** (power + 1):
            return f"{amount // 1000**power}{suffix}"
    return decimal_text(amount // 10**9)


def milli_text(amount: int) -> str:
    """Thousandths: 1500 is "1500m", 2000 is "2"."""
    return f"{amount}m" if amount % 1000 else decimal_text(amount // 1000)


def decimal_text(amount: int) -> str:
    """Pieces: 100 is "100", 5000 is "5k"."""
    return _with_suffix(amount, 1000, ("", "k", "M", "G", "T", "P", "E"))


def binary_text(amount: int) -> str:
    """Bytes: 1536 MiB is "1536Mi". Below 1024 they are written as pieces, as in Go."""
    if abs(amount) < 1024:
        return decimal_text(amount)
    return _with_suffix(amount, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))


@lru_cache(maxsize=4096)
def _with_suffix(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while amount and amount % step == 0 and power < len(suffixes) - 1:
        amount //= step
        power += 1
    return f"{amount}{suffixes[power]}"


def _plain(quantity: str | int | float) -> int | None:
    """Parse digits alone, as most of a metric's thousands of amounts are."""
    if isinstance(quantity, str) and quantity.isascii() and quantity.isdigit():
        return int(quantity) if len(quantity) < _LONGEST else None
    return None


def _exact(quantity: str | int | float) -> Decimal:
    text = str(quantity).strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(
            f"{excerpt(text)} is not a valid quantity; expected one like 500m, 2 or 1Gi"
        )
    digits, suffix = match.groups(default="")
    return _EXACT.multiply(Decimal(digits), _SUFFIXES[suffix])
