"""Time that tasks waited for each CPU, from the kernel's text: no IO.

The format is /proc/schedstat's (Documentation/scheduler/sched-stats.rst), whose lines of CPUs
are the same in versions 15 to 17.
"""

from __future__ import annotations

import re

_CPU = re.compile(r"^cpu(\d+)((?: \d+){9})$", re.MULTILINE)
_WAITED = 7


def wait_nanoseconds(text: str) -> dict[int, int]:
    """Nanoseconds that tasks have waited on the run queue of each running CPU, since boot.

    Raises:
        ValueError: it has no line of a CPU with nine counters.
    """
    found = {int(line[1]): int(line[2].split()[_WAITED]) for line in _CPU.finditer(text)}
    if not found:
        raise ValueError("no line of a CPU with nine counters")
    return found
