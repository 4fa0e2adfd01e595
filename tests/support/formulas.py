"""Computes what a decision's formula says, as a reader would: from the numbers shown with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from koord_model.decision import Decision

_WORDS = (("×", "*"), ("−", "-"), ("≥", ">="), ("≤", "<="), (" where ", " if "))
_ROUNDED_UP = re.compile(r"⌈([^⌉]*)⌉")
_FUNCTIONS = {"max": max, "min": min, "ln": math.log, "ceil": lambda x: math.ceil(x - 1e-6)}


_ROUNDED = {"bytes": 4096.0, "KiB": 1.0, "µs": 200.0}
"""By how much strategies round: pages, and millicores in a period."""


def wrong(decision: Decision) -> list[str]:
    """The equations that do not lead to the number that is shown, with what they lead to.

    What is computed on the way and not shown counts for the equations after it. One with a number
    that is not known is left out.
    """
    units = {one.name: one.unit for one in decision.given}
    shown = {one.name: one.value for one in decision.given}
    known: dict[str, float | str | None] = dict(shown)
    lines = []
    for equation in decision.formula.split("; ") if decision.formula else ():
        name, equals, expression = equation.rpartition(" = ")
        found = _computed(expression, known)
        if not equals:
            holds = found in (1.0, None)
        elif name not in shown:
            known[name], holds = found, True
        else:
            near = _ROUNDED.get(units[name], 1e-6)
            said = shown[name]
            numbers = isinstance(said, int | float) and found is not None
            holds = not numbers or math.isclose(found, said, rel_tol=1e-3, abs_tol=near)
        if not holds:
            lines.append(f"{equation}: {found}, of {decision}")
    return lines


def _computed(expression: str, known: Mapping[str, float | str | None]) -> float | None:
    """The value of an expression; ``None`` where one of its numbers is not known."""
    names = sorted(known, key=len, reverse=True)
    pattern = "|".join(map(re.escape, names))
    used: dict[str, float | str | None] = {}

    def placed(match: re.Match[str]) -> str:
        used[place := f"v{names.index(match[0])}"] = known[match[0]]
        return place

    text = re.sub(rf"(?<!\w)(?:{pattern})(?![\w(])", placed, expression) if names else expression
    text = _ROUNDED_UP.sub(r"ceil(\1)", text)
    for word, python in _WORDS:
        text = text.replace(word, python)
    if any(not isinstance(value, int | float) for value in used.values()):
        return None
    return float(eval(text, {"__builtins__": {}}, {**_FUNCTIONS, **used}))
