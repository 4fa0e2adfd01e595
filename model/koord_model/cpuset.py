"""Kernel CPU lists ("0-3,8") read and written."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPU = 1 << 16
"""Larger numbers are typing errors: no kernel is built for so many CPUs."""


def parse(text: str) -> frozenset[int]:
    """The CPUs of a kernel CPU list; the empty text is the empty set.

    Raises:
        ValueError: the text is no CPU list; the message shows it.
    """
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f'{text!r} is no CPU list; expected one like "0-3,8"')
        low, high = int(first), int(last or first)
        if low > high or high >= MAX_CPU:
            raise ValueError(f"{text!r}: {part!r} is no range of CPUs")
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
