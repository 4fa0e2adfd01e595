"""Amounts as the API has them: exact, and in Kubernetes' canonical form. No IO."""

from __future__ import annotations

from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def quantity(resource: str, amount: int) -> str:
    """An amount as a quantity with the largest suffix that is exact, as Koordinator writes it."""
    if resource == CPU and amount % 1000:
        return f"{amount}m"
    whole = amount // 1000 if resource == CPU else amount
    base, suffixes = (1024, _BINARY) if resource == MEMORY else (1000, _DECIMAL)
    place = 0
    while whole and whole % base == 0 and place < len(suffixes) - 1:
        whole //= base
        place += 1
    return f"{whole}{suffixes[place]}"


def quantities(amounts: Amounts) -> dict[str, str]:
    """Amounts as quantities, by resource."""
    return {name: quantity(name, amount) for name, amount in sorted(amounts.items())}
