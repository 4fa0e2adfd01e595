"""Kubernetes quantities ("500m", "1Gi", 2) as exact numbers."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation

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
    """The quantity rounded up to a whole number, as Kubernetes' ``Value()`` does.

    Raises:
        ValueError: the text is no quantity; the message shows it.
    """
    return int(_exact(quantity).to_integral_value(ROUND_CEILING))


def _exact(quantity: str | int | float) -> Decimal:
    text = str(quantity).strip()
    digits = text.rstrip("numkMGTPEi")
    try:
        number = Decimal(digits) * _SUFFIXES[text[len(digits) :]]
    except (InvalidOperation, KeyError):
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{quantity!r} is no quantity; expected one like 500m, 2 or 1Gi")
    return number
