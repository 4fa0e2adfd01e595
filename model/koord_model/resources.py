"""Kernel limits of a pod or container, where every field may be unset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


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


class ResourceField(NamedTuple):
    """One limit, and what each interface that carries it calls it.

    ``name`` is the model's. ``cri`` is CRI's, and the hook protocol's. ``oci`` is the section and
    key in the OCI runtime specification's ``linux.resources``, and in NRI's ``LinuxResources``;
    ``None`` where both keep it elsewhere. ``docker`` is HostConfig's. ``knob`` is the row of the
    knob table that a runtime writes it to, "" where running containers are not changed by it.
    """

    name: str
    cri: str
    oci: tuple[str, str] | None
    docker: str
    knob: str
    text: bool = False


RESOURCE_FIELDS = (
    ResourceField("cpu_period", "cpu_period", ("cpu", "period"), "CpuPeriod", "cpu.cfs_period_us"),
    ResourceField("cpu_quota", "cpu_quota", ("cpu", "quota"), "CpuQuota", "cpu.cfs_quota_us"),
    ResourceField("cpu_shares", "cpu_shares", ("cpu", "shares"), "CpuShares", "cpu.shares"),
    ResourceField(
        "memory_limit",
        "memory_limit_in_bytes",
        ("memory", "limit"),
        "Memory",
        "memory.limit_in_bytes",
    ),
    ResourceField(
        "memory_swap_limit", "memory_swap_limit_in_bytes", ("memory", "swap"), "MemorySwap", ""
    ),
    ResourceField("oom_score_adj", "oom_score_adj", None, "OomScoreAdj", ""),
    ResourceField(
        "cpuset_cpus", "cpuset_cpus", ("cpu", "cpus"), "CpusetCpus", "cpuset.cpus", text=True
    ),
    ResourceField(
        "cpuset_mems", "cpuset_mems", ("cpu", "mems"), "CpusetMems", "cpuset.mems", text=True
    ),
)
"""The fields of ``LinuxResources`` that hold one value each: the one place that lists them."""

SCALARS = tuple(field.name for field in RESOURCE_FIELDS)
"""The model's names of them."""

TEXTS = frozenset(field.name for field in RESOURCE_FIELDS if field.text)
"""Those that hold text; the others hold whole numbers."""
