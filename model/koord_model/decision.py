"""A decision and its arithmetic as data: what was come to, and why. No IO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple


class Term(NamedTuple):
    """One number that went into a decision, with its unit ("cores", "bytes", "%", "")."""

    name: str
    value: float | int | str | None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One piece of arithmetic: what was decided, of what numbers, by what formula.

    ``outcome`` is one line for people that stays the same as long as nothing else is decided:
    numbers that move each second belong to ``given``, in the order in which ``formula`` names
    them. A formula is equations, separated by "; ", by which these numbers lead to the result;
    ⌈x⌉ is rounded up (``tests/support/formulas.py`` computes them). ``pod`` ("namespace/name") and
    ``group`` (a cgroup) are what it is about; without both, the node. ``aspect`` distinguishes
    decisions of one strategy about the same.
    """

    outcome: str
    formula: str = ""
    given: tuple[Term, ...] = ()
    pod: str = ""
    group: str = ""
    aspect: str = ""

    def __str__(self) -> str:
        """The outcome with its arithmetic, for a journal's ``why``."""
        numbers = ", ".join(f"{name} {shown(value, unit)}" for name, value, unit in self.given)
        arithmetic = " with ".join(part for part in (self.formula, numbers) if part)
        return f"{self.outcome} ({arithmetic})" if arithmetic else self.outcome

    def document(self) -> dict[str, Any]:
        """As JSON has it, on pages."""
        return {
            "aspect": self.aspect,
            "pod": self.pod,
            "group": self.group,
            "outcome": self.outcome,
            "formula": self.formula,
            "given": [
                {"name": name, "value": plain(value), "unit": unit, "shown": shown(value, unit)}
                for name, value, unit in self.given
            ],
        }


def shown(value: float | str | None, unit: str = "") -> str:
    """A number for people: short, with its unit; bytes in the largest unit that fits."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return _bytes(value)
    text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{text} {unit}" if unit else text


def plain(value: float | str | None) -> int | float | str | None:
    """A number as JSON has it: numpy's are none of its own, nor is infinity."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _bytes(value: float) -> str:
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(value) >= 1024**power:
            return f"{value / 1024**power:.4g} {name}"
    return f"{value:.0f} B"
