"""State of the daemon at a moment, for its files and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.node_info import RDMADevices

from koord_devices.core.accelerator import Accelerator
from koord_devices.core.inventory import VendorState
from koord_devices.prober import Answer

HOLDS_FOR_ROUNDS = 3
"""After so many intervals nobody has confirmed the file, and koordlet no longer believes it."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known; ``switches`` are those that RDMA devices are behind, by address."""

    states: Mapping[str, VendorState] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    rdma: RDMADevices = field(default_factory=lambda: RDMADevices(()))
    switches: Mapping[str, str] = field(default_factory=dict)
    written_at: float = 0.0
    write_error: str = ""

    @property
    def accelerators(self) -> list[Accelerator]:
        """All of all vendors."""
        return [
            accelerator
            for name in sorted(self.states)
            for accelerator in self.states[name].accelerators
        ]
