"""Delays of containers: what pages, reports and commands show of them, and what of pods. No IO."""

from __future__ import annotations

from collections.abc import Mapping

DELAYS: Mapping[str, str] = {
    "sched_wait": "container_cpu_sched_wait",
    "memory_delay": "container_memory_delay",
    "disk_wait": "container_disk_wait",
    "tcp_rtt": "container_tcp_rtt",
    "tcp_retransmits": "container_tcp_retransmits",
}
"""Kinds of samples, by the names that they have there."""


def with_pods(values: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """The values of containers, and for each pod that of its worst container."""
    found = dict(values)
    for (uid, _), value in values.items():
        found[uid,] = max(found.get((uid,), value), value)
    return found
