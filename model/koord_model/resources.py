"""Kernel limits of a pod or container, where every field may be unset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """CPU, memory and cpuset limits in the kernel's units; ``None`` is unset.

    ``cpu_period`` and ``cpu_quota`` are microseconds (quota -1: no limit),
    ``memory_limit`` and ``memory_swap_limit`` bytes (-1: no limit), ``cpuset_*``
    kernel CPU lists ("0-3,8"; "" clears the list).
    """

    cpu_period: int | None = None
    cpu_quota: int | None = None
    cpu_shares: int | None = None
    memory_limit: int | None = None
    memory_swap_limit: int | None = None
    oom_score_adj: int | None = None
    cpuset_cpus: str | None = None
    cpuset_mems: str | None = None
    hugepage_limits: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)


SCALARS = (
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "memory_limit",
    "memory_swap_limit",
    "oom_score_adj",
    "cpuset_cpus",
    "cpuset_mems",
)
"""The names of the fields that hold one value each."""

TEXTS = frozenset({"cpuset_cpus", "cpuset_mems"})
"""Those among them that hold text; the others hold whole numbers."""
