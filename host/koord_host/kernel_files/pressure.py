"""Pressure files, as Documentation/accounting/psi.rst has them: no IO."""

from __future__ import annotations

import re
from typing import NamedTuple


class Averages(NamedTuple):
    """Percent of time that tasks waited, averaged over 10, 60 and 300 seconds."""

    avg10: float
    avg60: float
    avg300: float


class Pressure(NamedTuple):
    """One resource: when ``some`` tasks waited, and when all (``full``).

    ``full`` is ``None`` where the kernel does not say: for CPU, before Linux 5.13.
    """

    some: Averages
    full: Averages | None


_SHARE = r"([0-9]{1,3}\.[0-9]{2})"
_LINE = re.compile(rf"(some|full) avg10={_SHARE} avg60={_SHARE} avg300={_SHARE} total=[0-9]+")


def parse(text: str) -> Pressure:
    """The text of one pressure file.

    Raises:
        ValueError: it is not as the kernel writes it.
    """
    found: dict[str, Averages] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{line[:80]!r} is not a valid line of a pressure file")
        found[match[1]] = Averages(float(match[2]), float(match[3]), float(match[4]))
    if "some" not in found:
        raise ValueError('has no line "some avg10=…"')
    return Pressure(found["some"], found.get("full"))
