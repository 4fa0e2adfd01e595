"""Amounts of several resources: added, compared, and as JSON. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from koord_model.demand import Amounts
from koord_model.keys import CPU
from koord_model.quantity import milli_text


def total(lists: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    found: dict[str, int] = {}
    for one in lists:
        for name, amount in one.items():
            found[name] = found.get(name, 0) + amount
    return found


def largest(first: Amounts, second: Amounts) -> Amounts:
    """The larger amount of each resource that either has."""
    return {**first, **{name: max(first.get(name, one), one) for name, one in second.items()}}


def excess(amounts: Amounts, bound: Amounts) -> Iterator[str]:
    """Where they are more than the bound, which is 0 for resources that it does not name."""
    for name in sorted(amounts):
        if amounts[name] > bound.get(name, 0):
            yield f"{name} {text(name, amounts[name])} > {text(name, bound.get(name, 0))}"


def text(name: str, amount: int) -> str:
    """An amount as a quantity."""
    return milli_text(amount) if name == CPU else str(amount)


def quantities(amounts: Amounts) -> Mapping[str, str]:
    """Amounts as quantities."""
    return {name: text(name, amount) for name, amount in sorted(amounts.items())}


def encode(amounts: Amounts) -> str:
    """Amounts as an annotation has them."""
    return msgspec.json.encode(quantities(amounts)).decode()
