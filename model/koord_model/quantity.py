"""Kubernetes quantities ("500m", "1Gi", 2) as exact numbers."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal

from koord_model.excerpt import excerpt

_LONGEST = 64
"""Characters; exact arithmetic on more is work a pod's author could make us do."""

_EXACT = Context(prec=2 * _LONGEST)

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
    return int(_EXACT.multiply(10**9, _exact(quantity)).to_integral_value(ROUND_UP))


def milli_text(amount: int) -> str:
    """Thousandths as a quantity: "500m", or whole where it is whole."""
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def binary_text(amount: int) -> str:
    """Bytes as a quantity: with the largest suffix that is exact, or rounded up from 10 on."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = int(_SUFFIXES[suffix])
        if amount >= 10 * unit or (amount and amount % unit == 0):
            return f"{-(-amount // unit)}{suffix}"
    return str(amount)


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
