"""Limits of the number of pods that move at a time. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from koord_descheduler.planner.move import Move


def at_all_times(_now: float) -> bool:
    """The usual ``holds_at``."""
    return True


class MoveLimit(NamedTuple):
    """At most so many moves ``of`` equal value: of a node, of a namespace; "" is not counted.

    ``most`` of 0 allows none. ``holds_at`` takes seconds since the epoch.
    """

    name: str
    most: int
    of: Callable[[Move], str]
    holds_at: Callable[[float], bool] = at_all_times


class Budgets:
    """The rest of ``limits``; ``under_way`` are moves that have begun and not ended."""

    def __init__(self, limits: Sequence[MoveLimit], under_way: Iterable[Move] = ()) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()
        for move in under_way:
            self.charge(move)

    def refusal(self, move: Move) -> str:
        """Return the limit that forbids a move, in a line; "" if none does."""
        for limit in self._limits:
            of = limit.of(move)
            if of and self._counts[limit.name, of] >= limit.most:
                return f"{limit.name} is {limit.most}, reached for {of}"
        return ""

    def charge(self, move: Move) -> None:
        """Count a move."""
        for limit in self._limits:
            self._counts[limit.name, limit.of(move)] += 1

    def refund(self, move: Move) -> None:
        """Count it no more."""
        for limit in self._limits:
            self._counts[limit.name, limit.of(move)] -= 1


def of_node(move: Move) -> str:
    """The node that a pod leaves."""
    return move.source


def of_target(move: Move) -> str:
    """The node that a pod goes to."""
    return move.target


def of_namespace(move: Move) -> str:
    """The namespace of a pod."""
    return move.pod.namespace


def of_owner(move: Move) -> str:
    """The controller of a pod."""
    return move.pod.owner


def of_all(_move: Move) -> str:
    """All moves together."""
    return "all"
