"""Check for enough CPU on a node whose CPU is given away several times. No IO.

Koordinator's ``filterAmplifiedCPUs`` (``plugins/nodenumaresource/plugin.go``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from koord_scheduler.plugins.node_numa_resource.machine import amplified


@dataclass(frozen=True)
class AmplifiedCPU:
    """A node's CPU is given away ``ratio`` times; 1 and less: once, and nothing is counted here.

    CPUs that pods have for themselves are not: they count amplified. A pod asks for ``asked``, for
    itself if it ``binds``; other pods have ``own``. Amounts are in 1/1000 CPU.
    """

    asked: int
    own: int
    ratio: float
    binds: bool

    @property
    def is_counted(self) -> bool:
        """True if anything is counted."""
        return self.ratio > 1 and self.asked > 0

    def fits(self, has: Any, requested: Any) -> Any:
        """True if the pod fits on nodes with so much CPU, of which pods request so much.

        Of one node, or of several in arrays.
        """
        if not self.is_counted:
            return True
        more = amplified(self.own, self.ratio) - self.own
        asked = amplified(self.asked, self.ratio) if self.binds else self.asked
        return asked <= has - (requested + more * (requested >= self.own))
