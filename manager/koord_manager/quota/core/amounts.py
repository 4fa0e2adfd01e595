"""Amounts of several resources: added, compared, and as JSON. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from koord_model.demand import Amounts
from koord_model.quantity import quantity_text, quantity_texts


def total(lists: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    found: dict[str, int] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def largest(first: Amounts, second: Amounts) -> Amounts:
    """The larger amount of each resource that either has."""
    return {
        **first,
        **{name: max(first.get(name, amount), amount) for name, amount in second.items()},
    }


def excess(amounts: Amounts, bound: Amounts) -> Iterator[str]:
    """Describe the amounts above the bound, which is 0 for resources that it does not name."""
    for name in sorted(amounts):
        if amounts[name] > bound.get(name, 0):
            most = quantity_text(name, bound.get(name, 0))
            yield f"{name} {quantity_text(name, amounts[name])} > {most}"


def encode(amounts: Amounts) -> str:
    """Amounts as an annotation has them."""
    return msgspec.json.encode(quantity_texts(amounts)).decode()
