"""Usage of pods in the last minute, beside the averages of a NodeMetric's usual window. No IO.

In ``podsMetric[].extensions.pykoord.recent`` by container, "" being the whole pod: cores, bytes,
and, where that is measured, what its tasks waited for a CPU (ms for each second of CPU). The
window's seconds are in the status' ``extensions.pykoord.recentSeconds``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koordlet.states_informer.state.pod_inventory import PodRecord

SECONDS = 60.0

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecentUsage:
    """Averages over the last ``SECONDS`` by pod and by its containers, each in its own unit."""

    cpu: Mapping[Labels, float]
    memory: Mapping[Labels, float]
    waits: Mapping[Labels, float]

    def rows(self, record: PodRecord) -> dict[str, list[float]]:
        """Return the rows of a pod, and of its containers if it has several."""
        uid, several = record.pod.uid, len(record.containers) > 1
        inside = record.containers.items() if several else ()
        keys: dict[str, Labels] = {"": (uid,)}
        keys |= {container.name: (uid, key) for key, container in inside}
        found = {name: self._row(labels) for name, labels in sorted(keys.items())}
        return {name: row for name, row in found.items() if row}

    def _row(self, labels: Labels) -> list[float]:
        if labels not in self.cpu or labels not in self.memory:
            return []
        wait = [round(self.waits[labels], 2)] if labels in self.waits else []
        return [round(self.cpu[labels], 4), round(self.memory[labels]), *wait]
