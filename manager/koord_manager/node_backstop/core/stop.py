"""The number of unhealthy nodes above which nothing is done. No IO.

Katalyst's is ``computeClusterState`` of its agent health controller: more than 2 nodes and more
than 20 % of them. Here a cause is counted among the nodes that can have it: where a tenth of the
nodes run koordlet, the silence of all koordlets is one of a fifth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from koord_manager.node_backstop.core.faults import Examination
from koord_manager.node_taints.core.taints import MOST_PERCENT, most_tainted

STOP_SECONDS = 300.0
"""The stop lasts so long after the last look at which there were too many."""


class DisruptionStop:
    """Knows whether too many nodes are unhealthy, or were a short time ago."""

    def __init__(self) -> None:
        self._until = float("-inf")
        self._reason = ""
        self.reason = ""
        """Reason why nothing is done, in a line; "" while it may be."""

    def observe(self, examined: Iterable[Examination], now: float) -> None:
        """Take in a look at all nodes."""
        found = _excess(examined)
        if found:
            self._reason, self._until = found, now + STOP_SECONDS
        self.reason = self._reason if now < self._until else ""


def _excess(examined: Iterable[Examination]) -> str:
    total = number = 0
    watched, suspected = Counter[str](), Counter[str]()
    for watches, faults in examined:
        total += 1
        causes = {fault.cause for fault in faults if fault.is_suspect}
        number += bool(causes)
        watched.update(watches)
        suspected.update(causes)
    for cause, nodes in sorted(suspected.items()):
        if nodes > most_tainted(watched[cause]):
            return _line(nodes, watched[cause], cause)
    return _line(number, total, "some fault") if number > most_tainted(total) else ""


def _line(number: int, total: int, cause: str) -> str:
    return f"{number} of {total} nodes have {cause}, more than {MOST_PERCENT} %"
