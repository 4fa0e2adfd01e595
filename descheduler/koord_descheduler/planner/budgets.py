"""Limits of the number of pods that move at a time. No IO."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from koord_kube.core.token_bucket import TokenBucket

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


def per_second(written: float | str) -> float:
    """The rate that an ``evictQPS`` says, a number or its text; 0 if that is none above 0."""
    try:
        found = float(written)
    except ValueError:
        return 0.0
    return found if 0 < found < math.inf else 0.0


class MovePace(NamedTuple):
    """So many moves a second in the mean of rounds.

    A round has the turns that came together since the last one, ``burst`` at most; ``None``:
    those of one interval.
    """

    qps: float
    burst: int | None = None

    def bucket(self, interval: float) -> TokenBucket:
        """The turns, for rounds that are ``interval`` seconds apart."""
        return TokenBucket(self.qps, self.burst or max(1, int(self.qps * interval)))


class Budgets:
    """The rest of ``limits`` in a round."""

    def __init__(self, limits: Sequence[MoveLimit]) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

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


def of_workload(move: Move) -> str:
    """The workload of a pod, of a Deployment's ReplicaSets the Deployment."""
    return str(move.pod.template.workload or "")


def of_all(_move: Move) -> str:
    """All moves together."""
    return "all"
