"""Resources that pods contend for: what each pod uses of them. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from koordlet.qos_manager.core.strategy import MetricHistory

_AVERAGE_SECONDS = 10.0
_NEWEST_SECONDS = 30.0


class ContendedResource(NamedTuple):
    """A resource, and the kind of samples that say what pods use of it.

    ``name`` is for people, as is ``event``, the reason of an Event about contention; ``scale`` of
    the kind's unit are one ``unit``. A pod that used less than ``least`` disturbs nobody.
    ``newest`` is whether the newest sample counts, which is of some seconds already, and
    ``grown`` whether only what a pod took on top of its least use in the window does: memory is
    held, not used up.
    """

    name: str
    event: str
    kind: str
    unit: str
    least: float
    newest: bool = False
    grown: bool = False
    scale: float = 1.0


CPU = ContendedResource("CPU use", "CPUInterference", "pod_cpu_usage", "cores", 0.1)
MEMORY = ContendedResource(
    "memory growth",
    "MemoryInterference",
    "pod_memory_usage",
    "MiB",
    64 << 20,
    grown=True,
    scale=1 << 20,
)
DISK = ContendedResource(
    "disk use", "DiskInterference", "pod_disk_usage", "MB/s", 1e6, newest=True, scale=1e6
)
NETWORK = ContendedResource(
    "network use", "NetworkInterference", "pod_network_usage", "MB/s", 1e5, newest=True, scale=1e6
)
RESOURCES = (CPU, MEMORY, DISK, NETWORK)

Uses = Mapping[str, Mapping[str, float]]
"""Usage of pods at a point's time: by kind of samples, by UID."""


def uses(history: MetricHistory) -> Uses:
    """Usage of pods now, of what is measured."""
    found = {}
    for resource in RESOURCES:
        seconds = _NEWEST_SECONDS if resource.newest else _AVERAGE_SECONDS
        windows = history.windows(resource.kind, seconds)
        if windows:
            found[resource.kind] = {
                labels[0]: window.last if resource.newest else window.avg
                for labels, window in windows.items()
            }
    return found
