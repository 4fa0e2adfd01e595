"""Numbers spelled as Kubernetes quantities, in the canonical form that Go programs write. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from koord_model.keys import CPU

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def millicores(amount: int) -> str:
    """CPU: 1500 is "1500m", 2000 is "2"."""
    return count(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def size(amount: int) -> str:
    """Bytes: 1536 MiB is "1536Mi". Below 1024 the form is that of ``count``, as in Go."""
    return _spelled(amount, 1024, _BINARY) if abs(amount) >= 1024 else count(amount)


def count(amount: int) -> str:
    """Pieces: 100 is "100", 5000 is "5k"."""
    return _spelled(amount, 1000, _DECIMAL)


def resources(amounts: Mapping[str, int]) -> dict[str, str]:
    """Quantities of amounts as ``koord_model.demand`` has them: CPU in millicores, or bytes."""
    return {
        name: millicores(amount) if name == CPU else size(amount)
        for name, amount in amounts.items()
    }


@lru_cache(maxsize=4096)
def _spelled(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    """Without digits lost, in the largest unit."""
    power = 0
    while amount and amount % step == 0 and power < len(suffixes) - 1:
        amount //= step
        power += 1
    return f"{amount}{suffixes[power]}"
