"""Kernel CPU lists ("0-3,8") read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from koord_model.excerpt import excerpt

MAX_CPU = 1 << 16
"""Larger numbers are typing errors: no kernel is built for so many CPUs."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def parse(text: str) -> frozenset[int]:
    """The CPUs of a kernel CPU list; the empty text is the empty set.

    Raises:
        ValueError: the text is not a CPU list; the message shows it.
    """
    cpus: set[int] = set()
    listed = 0
    for part in text.strip().split(",") if text.strip() else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f'{excerpt(text)} is not a valid CPU list; expected one like "0-3,8"')
        low, high = int(match[1]), int(match[2] or match[1])
        listed += high - low + 1
        if low > high or high >= MAX_CPU:
            raise ValueError(f"{excerpt(text)}: {part} is not a valid range of CPUs")
        if listed > MAX_CPU:
            raise ValueError(f"{excerpt(text)} names the same CPUs over and over")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def render(cpus: Iterable[int]) -> str:
    """The shortest kernel CPU list of these CPUs."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
