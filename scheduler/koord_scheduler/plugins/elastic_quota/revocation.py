"""Choice of pods to evict from a quota that uses too much. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from koord_model.demand import Amounts

_Key = TypeVar("_Key")


def pods_to_revoke(
    used: Amounts, limit: Amounts, pods: Sequence[tuple[_Key, Amounts]]
) -> list[_Key]:
    """Of the pods of a quota that may be preempted, the most important first, those to evict.

    The least important go first, if they use some of what there is too much of, until nothing is
    over ``limit``. Then those come back, the most important first, that have room after all.
    """
    left = Counter(used)
    gone: list[tuple[_Key, Amounts]] = []
    for key, amounts in reversed(pods):
        over = [name for name, most in limit.items() if left[name] > most]
        if not over:
            break
        if any(amounts.get(name) for name in over):
            left.subtract(amounts)
            gone.append((key, amounts))
    revoked = []
    for key, amounts in reversed(gone):
        if _has_room(left, limit, amounts):
            left.update(amounts)
        else:
            revoked.append(key)
    return revoked


def _has_room(used: Mapping[str, int], limit: Amounts, amounts: Amounts) -> bool:
    return all(
        used.get(name, 0) + amount <= limit[name]
        for name, amount in amounts.items()
        if name in limit and amount
    )
