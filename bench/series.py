"""Figures taken in turns: every path once a round, so that a slow minute slows all of them."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import programs
from bench.report import median_interval


class Series:
    """Figures by path, a value a round."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, path: str, value: float) -> None:
        self._values.setdefault(path, []).append(value)

    def median(self, path: str) -> float:
        return statistics.median(self._values[path])

    def over(self, path: str, base: str = "direct") -> float:
        """The median of what a path takes more than another, round by round."""
        return statistics.median(self._differences(path, base))

    def over_interval(self, path: str, base: str = "direct") -> tuple[float, float]:
        """Confidence interval of ``over``."""
        return median_interval(self._differences(path, base))

    def _differences(self, path: str, base: str) -> list[float]:
        pairs = zip(self._values[path], self._values[base], strict=True)
        return [ours - theirs for ours, theirs in pairs]

    def ratio_interval(self, path: str, peer: str, base: str | None = None) -> tuple[float, float]:
        """Confidence interval of the ratio to a peer, by round; ``base`` is taken from both."""
        values = self._values
        bases = values[base] if base else [0.0] * len(values[path])
        rounds = zip(values[path], values[peer], bases, strict=True)
        # A peer that was no slower than the base in a round says nothing about the ratio.
        return median_interval([(a - c) / (b - c) for a, b, c in rounds if b > c])


def in_turn(sockets: dict[str, Path], number: int) -> list[tuple[str, Path]]:
    """The paths in order, every other round backwards: none always comes after the same one."""
    return list(sockets.items())[:: -1 if number % 2 else 1]


@contextlib.contextmanager
def cpu_a_call(pid: int | None, calls: int, tell: Callable[[float], None]) -> Iterator[None]:
    """CPU time a call of a process while the block runs."""
    before = programs.cpu_micros(pid) if pid else 0
    yield
    if pid:
        tell((programs.cpu_micros(pid) - before) / calls)
