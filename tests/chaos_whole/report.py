"""What a run came to, for people."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from koordctl.output.tables import plain, table


@dataclass
class Report:
    """Checks and faults in their order, and ``wrong``, a line for each thing that must not be."""

    checks: dict[str, float] = field(default_factory=dict)
    """Seconds that each took."""
    faults: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds until every pod was right again."""
    wrong: list[str] = field(default_factory=list)
    replaced: int = 0
    rejected: int = 0
    """Pods that the kubelet did not take, and that were replaced as well."""

    def lines(self) -> Iterator[str]:
        """The tables."""
        if self.checks:
            rows = [("CHECK", "SECONDS")]
            rows += [(name, f"{seconds:.1f}") for name, seconds in self.checks.items()]
            yield from plain([table(rows)])
            yield ""
        yield f"{self.replaced} pods replaced; {self.rejected} more: the kubelet had no room"
        yield "Seconds until every pod was right again:"
        rows = [("AFTER", "TIMES", "MEDIAN S", "MOST S")]
        for name, taken in self.faults.items():
            figures = (statistics.median(taken), max(taken))
            rows.append((name, str(len(taken)), *(f"{one:.1f}" for one in figures)))
        yield from plain([table(rows)])
        yield from (f"WRONG: {one}" for one in self.wrong)
